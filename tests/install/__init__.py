"""docs/operators.md executed literally, in bare Debian guests."""
