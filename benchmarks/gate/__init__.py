"""What the last gate costs a start."""
