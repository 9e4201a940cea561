"""Real services on loopback, and one named stand-in: Placement, Redis, PostgreSQL, Nova."""
