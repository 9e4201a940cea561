"""The machine that measures, and what on it may be measured."""
