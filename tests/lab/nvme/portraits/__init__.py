"""Drives as they are sold: what a public source says of a model, and the lab drive made from it."""
