"""The commands in the ``openstack`` program: a cloud's API instead of the record."""
