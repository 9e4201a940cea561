"""What people type: a module for each command."""
