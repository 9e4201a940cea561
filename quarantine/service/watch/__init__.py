"""Who and what is late: hosts, and what the service itself has to do."""
