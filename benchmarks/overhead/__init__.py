"""What the control plane adds to an erase: time, and the worker's memory."""
