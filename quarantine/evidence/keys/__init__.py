"""Which key may sign which place of the chain."""
