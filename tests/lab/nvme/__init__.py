"""A model of an NVMe drive, and its life as a real PCI function in a QEMU guest.

Read in this order: ``spec`` (numbers of the standards), ``profile`` and ``presets`` (what a drive
is), ``drive`` (what it remembers), ``controller`` (what it answers), ``function`` (registers and
queues), ``vfio_user`` (the wire to QEMU), ``server`` (the process).
"""
