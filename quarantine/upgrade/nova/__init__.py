"""Nova's configuration as Nova itself reads it."""
