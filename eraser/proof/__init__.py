"""Whether a drive is erased: probes, reading, verdict."""
