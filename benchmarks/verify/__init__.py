"""Verification reading against fio: same device, same guest, same run."""
