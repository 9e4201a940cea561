"""Nova's own tests, with changes of ours."""
