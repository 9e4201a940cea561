"""The bench's whole matrix on an emulated array."""
