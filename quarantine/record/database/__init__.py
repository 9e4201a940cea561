"""The database below the record: its door, its tables, and how rows are read. No decision."""
