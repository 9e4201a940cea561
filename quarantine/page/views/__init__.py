"""A module for each thing that the page shows."""
