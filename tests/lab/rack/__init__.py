"""The emulated rack: compute guests, tenant guests and the drives they share.

Hold a ``Rack`` (a context manager): it owns every process and file it makes and ends them all.
"""

from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest, TenantGuest
from tests.lab.rack.rack import Rack

__all__ = ["ComputeGuest", "Rack", "RackDrive", "TenantGuest"]
