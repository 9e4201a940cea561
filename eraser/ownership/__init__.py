"""Who has which drive of this host, and which drive may be handed out once."""
