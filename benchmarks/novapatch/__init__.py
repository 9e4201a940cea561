"""What the patch costs nova-compute."""
