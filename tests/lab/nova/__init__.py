"""What runs inside Nova's own environment: a fake hypervisor, no Keystone, a server for its API.

They are read by Nova, not by us: ``tests/lab/services/nova_daemons.py`` starts them.
"""
