"""What an installation needs: the schema, flavors, and the checks before an upgrade."""
