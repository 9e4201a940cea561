"""What WSGI servers import."""
