"""What outlives a process below the state directory. Nothing else writes there."""
