"""The control plane: slots, cases, custody in Placement, orders out, reports in, certificates."""
