"""The blocks of a namespace, read and written past every cache."""
