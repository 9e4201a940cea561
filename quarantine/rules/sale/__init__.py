"""What of the fleet can be sold now, what cannot and why, and when it can."""
