"""Lives beside Nova: what is loaded into nova-compute, and the commands that put it there.

Imports nova and the standard library only, by relative paths among itself: it is copied into Nova's
environment under another name. It must run on Nova's own Python, 3.9 or later.
"""

VERSION = "7"
"""Of the patch as a host reports it; raised with every change of what it does inside Nova."""
