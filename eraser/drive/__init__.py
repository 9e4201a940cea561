"""What one NVMe drive says of itself: read, held against its profile, and set back."""
