"""What outlives a process below the state directory. What writes there past this room is named in
``tests/unit/test_host_doors.py``."""
