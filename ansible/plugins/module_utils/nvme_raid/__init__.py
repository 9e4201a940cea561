"""RAID 0 and XFS on an instance's own NVMe drives: what is there, what to do, doing it.

Standard library only, Python 3.9 or newer: it runs on the tenant's machine, inside the Ansible
module or as one self-contained program (``tools/nvme-raid-script``).
"""
