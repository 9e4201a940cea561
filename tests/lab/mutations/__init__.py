"""Guards and decisions of the product, each spoilt once: a test has to go red."""
