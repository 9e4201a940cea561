"""A compute guest with Debian's libvirtd, for the tests of the last gate.

There is no systemd in a guest, so the daemons are started by hand (``daemons``); ``Libvirt`` is
what a test holds: domains, the hook directory and the daemon itself.
"""
