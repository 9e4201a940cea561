"""A tenant's own machine: its root disk outlives a reboot, and Ansible reaches it."""
