"""A tenant changed more than data: the drive comes back as its profile, erased, and is told of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.emulated.erasing import Bench, bench
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.profile import NamespaceProfile
from tests.lab.nvme.spec import Fid
from tests.lab.rack import Rack

pytestmark = pytest.mark.rack

FULL = "many-features"
CRYPTO, BLOCK = 4, 2
SCATTERED = Leftovers(
    namespaces=[
        NamespaceProfile(nsid=1, share=0.25, lba_format=1),
        NamespaceProfile(nsid=2, share=0.1, attached=False),
        NamespaceProfile(nsid=3, share=0.01),
    ],
    write_protect={3: 1},
    reservation=1,
    features={0x06: 0, 0x0A: 1, Fid.INTERRUPT_COALESCING: 0xFFFF, Fid.READ_RECOVERY: 15},
    texts={Fid.MANAGEMENT_ADDRESS: "http://evil/", Fid.VENDOR_ERRORS: "hello, next tenant"},
)


def tampered(rack: Rack, left: Leftovers, **options: object) -> Bench:
    """A used drive with a profile, on which a tenant has left this as well."""
    made = bench(rack, FULL, **options)  # type: ignore[arg-type]
    with made.drive.control() as steering:
        steering.leave(left)
    made.compute.sh("nvme ns-rescan /dev/nvme0; udevadm settle || true")
    return made


def restored(made: Bench) -> dict[str, object]:
    """The report of an erase that ends fit."""
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    assert made.leaked == 0
    report = made.report(erased)
    assert report["profile_differences"] == []
    assert report["verification"]["canaries_checked"] >= 688
    assert report["facts_after"]["namespaces"][0]["blocks"] == (64 << 20) // 512
    return report


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(SCATTERED, id="scattered"),
        pytest.param(Leftovers(no_namespaces=True), id="emptied"),
        pytest.param(
            replace(SCATTERED, namespaces=[NamespaceProfile(lba_format=1)], write_protect={1: 1}),
            id="reformatted",
            marks=pytest.mark.rack,
        ),
    ],
)
def test_what_a_tenant_changed_is_put_right(rack: Rack, left: Leftovers) -> None:
    made = tampered(rack, left)
    report = restored(made)
    assert made.sanitizes() == [CRYPTO, BLOCK]
    assert (report["facts_before"]["namespaces"] == []) == left.no_namespaces  # type: ignore[index]
    assert report["seconds"]["restore"] > 0  # type: ignore[index]
