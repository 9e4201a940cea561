"""This host as its kernel, its processes and libvirt describe it. Knows no NVMe command."""
