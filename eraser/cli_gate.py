"""``nvme-eraser gate``: placeholder of the layer contract, filled by the commit that follows."""
