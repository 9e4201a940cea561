"""Certificates, the chain that they form, and the keys that sign them."""
