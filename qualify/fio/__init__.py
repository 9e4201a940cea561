"""What fio is asked to do, and what it answers."""
