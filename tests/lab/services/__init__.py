"""Real services on loopback, and named stand-ins (``*_standin.py``)."""
