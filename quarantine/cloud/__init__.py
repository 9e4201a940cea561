"""The one door to Placement."""
