"""What the API has: a module for each kind of thing, with the operations on it."""
