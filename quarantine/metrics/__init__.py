"""What Prometheus reads: counts that the database makes when it asks. No name of a slot, a drive's
serial number or a server is in a label."""
