"""What keeps this host off the drives of tenants, how it is set up, and whether it stands."""
