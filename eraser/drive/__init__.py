"""Finding, reading, freeing and proving idle one NVMe drive of this host."""
