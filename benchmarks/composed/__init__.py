"""Composed drives between two tenants, erased by the real eraser in a guest."""
