"""How soon a release is heard of."""
