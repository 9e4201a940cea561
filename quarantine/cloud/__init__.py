"""The doors to the cloud: one to Placement, one to Nova, and the custody protocol."""
