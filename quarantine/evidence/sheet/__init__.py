"""Certificates for eyes: the printable page, and the files."""
