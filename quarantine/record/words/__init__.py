"""The words of the record: states, events, codes, and what the store hands out. No database."""
