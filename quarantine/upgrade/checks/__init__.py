"""What is checked, by what it is about: each module has a table of checks over the facts."""
