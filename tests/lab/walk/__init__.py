"""The way of one order through the modules, for ``tools/structure --walk``."""
