"""What a next tenant really does first with a drive, traced in a guest: docs/first-acts.md."""
