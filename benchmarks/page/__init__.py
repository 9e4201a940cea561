"""What the web page costs, and whether it stutters, with 2,000 and with 80,000 slots."""
