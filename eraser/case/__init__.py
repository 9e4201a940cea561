"""One drive, from the lock on its slot to the signed report."""
