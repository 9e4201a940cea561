"""How certificates hang together, and what shows that they always did."""
