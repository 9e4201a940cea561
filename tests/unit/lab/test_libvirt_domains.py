"""The lab's domains are read by the product as they are meant."""

from __future__ import annotations

import pytest

from eraser.host.domains import named
from tests.lab.guest.image import PLAIN
from tests.lab.libvirt.domains import Domain, hostdev
from tests.lab.libvirt.flavour import LIBVIRT


def test_a_domain_names_its_drives_and_itself() -> None:
    domain = Domain("a<b", ("0000:01:00.0", "00a1:c2:1f.7"))
    found = named(domain.xml().encode())
    assert (found.domain, found.addresses) == ("a<b", frozenset(domain.addresses))
    assert domain.uuid != Domain("a<b").uuid


def test_an_address_that_is_none_makes_no_hostdev() -> None:
    with pytest.raises(ValueError, match="expected a PCI address"):
        hostdev("01:00.0")


def test_the_image_with_libvirt_is_one_of_its_own() -> None:
    """Its packages come on top, and no other guest has them."""
    assert set(PLAIN.packages) < set(LIBVIRT.image.packages)
    assert LIBVIRT.image.name != PLAIN.name
    assert not any("libvirt" in package for package in PLAIN.packages)
