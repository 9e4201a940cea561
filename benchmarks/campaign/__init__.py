"""What a campaign's turn costs by the number of its slots."""
