"""How soon a release is seen and acted on, with the host's bell and without."""
