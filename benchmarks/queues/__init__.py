"""How long what hosts say waits for the control plane."""
