"""The control plane: slots, cases, custody in Placement, orders out, reports in, certificates."""

VERSION = "0.1.0"
"""The distribution's. Not imported from there: of the eraser this part sees the wire alone."""
