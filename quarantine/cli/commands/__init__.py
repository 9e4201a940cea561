"""What people type: a module for each kind of thing, a class for each command."""
