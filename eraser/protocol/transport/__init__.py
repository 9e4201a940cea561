"""How the protocol travels: signatures, Redis, configuration. The only third-party half."""
