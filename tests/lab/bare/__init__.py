"""Bare Debian 12 guests with systemd: what an operator has before the first step of the guide.

The guests of the rack are restored from a saved state, have the project's code mounted, and a
process 1 of our own. Here nothing of ours is installed but the command agent, and every start is
a real boot.
"""
