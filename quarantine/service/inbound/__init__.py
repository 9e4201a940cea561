"""What hosts say: taken off their lists, authenticated, believed as far as it reaches."""
