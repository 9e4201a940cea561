"""Honest drives as a hostile tenant left them: erased, and repaired or held."""

from __future__ import annotations

from dataclasses import replace

from tests.lab.nvme.faults import EraseFault, Faults, Spared
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.presetkind import FULL_FEATURED, PLAIN, Preset
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile
from tests.lab.nvme.spec import AdminOp, Fid
from tests.lab.nvme.state import FirmwareState, SecurityState


def _left(
    name: str,
    about: str,
    left: Leftovers,
    *,
    unfit: str = "",
    profile: DriveProfile = FULL_FEATURED,
) -> Preset:
    return Preset(name, "a tenant " + about, profile, left=left, unfit=unfit)


_HALF_DETACHED = Leftovers(
    namespaces=[NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.5, attached=False)]
)
_FIRMWARE = FULL_FEATURED.firmware

LEFT_DRIVES = (
    _left("ns-deleted", "deleted the namespace", Leftovers(no_namespaces=True)),
    _left(
        "ns-tiny",
        "left one namespace of a hundredth of the drive",
        Leftovers(namespaces=[NamespaceProfile(1, 0.01)]),
    ),
    _left(
        "ns-many",
        "left eight namespaces",
        Leftovers(namespaces=[NamespaceProfile(n, 0.125) for n in range(1, 9)]),
    ),
    _left(
        "ns-gaps",
        "deleted the namespaces 1 and 3, between which there is none",
        Leftovers(no_namespaces=True),
        profile=replace(
            FULL_FEATURED, namespaces=(NamespaceProfile(1, 0.4), NamespaceProfile(3, 0.4))
        ),
    ),
    _left(
        "ns-detached",
        "left half of the drive in a namespace that is not attached",
        _HALF_DETACHED,
    ),
    Preset(
        "skips-detached",
        "a tenant left half of the drive in a detached namespace, which no erase of it reaches; "
        "attached or deleted first, it is erased",
        FULL_FEATURED,
        Faults(
            sanitize=EraseFault.SPARE,
            format=EraseFault.SPARE,
            spared=Spared.DETACHED,
            creates_dirty=True,
        ),
        left=_HALF_DETACHED,
    ),
    _left(
        "ns-4k",
        "changed the sectors to 4096 bytes",
        Leftovers(namespaces=[NamespaceProfile(1, 1.0, lba_format=1)]),
    ),
    _left(
        "write-protect-left",
        "left write protection on; it can be cleared",
        Leftovers(write_protect={1: 1}),
        profile=PLAIN,
    ),
    _left(
        "write-protect-cycle",
        "left write protection on until the next power cycle",
        Leftovers(write_protect={1: 2}),
        unfit="only a power cycle clears it",
        profile=PLAIN,
    ),
    _left(
        "write-protected",
        "left write protection on for ever",
        Leftovers(write_protect={1: 3}),
        unfit="nothing clears it",
        profile=PLAIN,
    ),
    _left("reservation-held", "holds a reservation that persists", Leftovers(reservation=1)),
    _left(
        "reservation-exclusive",
        "holds a reservation that lets nobody else read",
        Leftovers(reservation=2),
    ),
    _left(
        "features-changed",
        "saved another power state and switched the write cache off for good",
        Leftovers(features={Fid.POWER_MANAGEMENT: 3, Fid.WRITE_CACHE: 0}),
    ),
    _left(
        "features-harmful",
        "saved what slows the next one: interrupts 25.5 ms late, reads that give up at once, a "
        "vendor's power state, a threshold that warns of heat at once",
        Leftovers(
            features={
                Fid.INTERRUPT_COALESCING: 0xFFFF,
                Fid.READ_RECOVERY: 15,
                Fid.VENDOR_POWER: 1,
                Fid.TEMPERATURE_THRESHOLD: 200,
            }
        ),
        profile=replace(FULL_FEATURED, many_features=True),
    ),
    _left(
        "text-hidden",
        "left text in a namespace's label, a management address and a vendor's feature",
        Leftovers(
            texts={
                Fid.ADMIN_LABEL: "hello, next tenant",
                Fid.MANAGEMENT_ADDRESS: "http://evil/",
                Fid.VENDOR_ERRORS: "and another word",
            }
        ),
        profile=replace(FULL_FEATURED, many_features=True),
    ),
    _left(
        "verification-open",
        "left a sanitize of its own in the Media Verification state, which only a command ends",
        Leftovers(verifying=True),
    ),
    _left(
        "placement-left",
        "switched flexible data placement on, which no command switches off while there are "
        "namespaces",
        Leftovers(features={Fid.DATA_PLACEMENT: 1}),
        unfit="a person deletes the namespaces, switches it off, and orders again",
        profile=replace(FULL_FEATURED, many_features=True),
    ),
    _left(
        "metadata-left",
        "left text in the drive's host metadata, which keeps it over every reset",
        Leftovers(
            metadata={
                Fid.ENHANCED_CONTROLLER_METADATA: {0x0A: "another system", 0x10: "broken, honest"},
                Fid.CONTROLLER_METADATA: {0x01: "meet me at block 7", 0x0B: "a product"},
                Fid.NAMESPACE_METADATA: {0x01: "my volume"},
            }
        ),
    ),
    _left(
        "opal-locked",
        "took ownership and locked the drive",
        Leftovers(security=SecurityState(owned=True, enabled=True, locked=True)),
        unfit="only the PSID on the label reverts it",
    ),
    _left(
        "opal-owned",
        "took ownership, and may lock the drive on the next power cycle",
        Leftovers(security=SecurityState(owned=True, enabled=True)),
        unfit="only the PSID on the label reverts it",
    ),
    _left(
        "reflashed",
        "runs another firmware",
        Leftovers(firmware=FirmwareState([_FIRMWARE, "EVIL0001", _FIRMWARE], 2)),
        unfit="the firmware is not trusted",
    ),
    _left(
        "firmware-waiting",
        "stored another firmware that the next power cycle activates",
        Leftovers(firmware=FirmwareState([_FIRMWARE, "EVIL0001", _FIRMWARE], 1, 2)),
        unfit="the firmware is not trusted",
    ),
    _left(
        "firmware-history",
        "left an older firmware in a slot that does not run, as fleets have them",
        Leftovers(firmware=FirmwareState([_FIRMWARE, "OLDER001", _FIRMWARE], 1)),
    ),
    _left(
        "sanitize-prohibited",
        "prohibited Sanitize by a lockdown until the next power cycle",
        Leftovers(lockdown=[AdminOp.SANITIZE]),
        unfit="only a power cycle clears it",
    ),
    _left(
        "boot-changed",
        "wrote to the boot partition",
        Leftovers(boot=["tenant image", "vendor image 1"]),
        unfit="the boot partition is not the vendor's",
    ),
    _left(
        "ns-protected-tiny",
        "left a small namespace, write protected for ever",
        Leftovers(namespaces=[NamespaceProfile(1, 0.1)], write_protect={1: 3}),
        unfit="nothing clears it",
        profile=replace(FULL_FEATURED, reservations=False),
    ),
)
