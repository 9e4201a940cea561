"""Lives beside Nova; imports nova and the standard library only. Not built yet."""
