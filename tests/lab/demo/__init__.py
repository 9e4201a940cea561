"""The whole cycle on the emulated rack, to be watched: ``tools/demo``."""
