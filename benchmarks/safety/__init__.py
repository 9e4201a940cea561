"""How long a dirty drive stands on offer while everything else is busy."""
