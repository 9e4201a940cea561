"""The loop that carries out what the rules decide, and what it asks the cloud."""
