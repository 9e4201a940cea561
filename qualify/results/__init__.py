"""What was measured, as one object: read back, graded, held beside another."""
