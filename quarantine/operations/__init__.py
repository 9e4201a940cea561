"""What people may do, whoever asks for it."""
