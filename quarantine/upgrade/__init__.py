"""``upgrade check``: what in Nova's configuration, in Placement or on hosts leaks or breaks."""
