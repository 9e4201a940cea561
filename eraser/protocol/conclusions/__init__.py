"""What host and control plane both conclude from the same message, each for itself: pure functions
of what is on the wire, so that neither has to believe the other's result.
"""
