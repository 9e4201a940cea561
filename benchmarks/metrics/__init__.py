"""What a scrape of the metrics costs in a large cloud."""
