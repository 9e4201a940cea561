"""As much of Linux as a case of the eraser needs, in this process, above any drive of the model.

The eraser's own code runs down to its doors: processes (nvme-cli, writes to sysfs), ioctl, direct
reads and writes of a block device, and the clock. What stands behind the doors is here.
"""
