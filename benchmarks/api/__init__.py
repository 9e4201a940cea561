"""What requests of the API cost, beside a list of Placement's own."""
