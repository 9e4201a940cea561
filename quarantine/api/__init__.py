"""The HTTP API: a skin over :mod:`quarantine.operations`, like the commands.

``routes`` is the one table of what can be asked, ``schemas`` what goes in and out, ``policies`` who
may; ``application`` puts the pipeline together.
"""
