"""One NVMe controller, held open: who it is, and the only ways to speak to it."""
