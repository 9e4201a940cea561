"""Lives beside Nova; imports nova and the standard library only (issue B builds it)."""
