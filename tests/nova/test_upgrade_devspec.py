"""upgrade-check's reading of device_spec and alias, held against Nova's own code."""

from __future__ import annotations

import copy
import itertools
import json
import random
from pathlib import Path

import nova.conf
import pytest
from nova import exception
from nova.objects.request_spec import RequestSpec
from nova.pci import devspec as nova_devspec
from nova.pci import request as nova_request

from eraser.protocol.identity import Slot
from quarantine.operations.setup.flavors import FlavorTerms, nova_conf
from quarantine.upgrade.nova import alias, devicespec

CONF = nova.conf.CONF
ROUNDS = 2_000
"""20,000 of them were compared once."""
_ODD = (5, "", " ", "*", "-1", "0x81", "8_1", "zz", "0" * 9, None)
_PARTS = ("", "*", "81", "00", "0000", "ffff", "10000", "1f", "20", "7", "8", "zz", " 81", "8[0-3]")
_PATTERNS = (".*", "8", "8[0-3]", "81$", "00", "[0-7]", "", "(", "0000", "^0", "[^8]")
_DEVICES = tuple(
    devicespec.PciDevice(f"{domain}:{bus}:{slot}.{function}", vendor, product)
    for domain, bus, slot, function, (vendor, product) in itertools.product(
        ("0000", "ffff"),
        ("81", "08", "ff"),
        ("00", "1f"),
        ("0", "7"),
        ((0x144D, 0xA824), (0x8086, 0x0A54)),
    )
)


def _address(choose: random.Random) -> object:
    kind = choose.randrange(6)
    if kind == 0:
        parts = choose.sample(["domain", "bus", "slot", "function"], choose.randrange(5))
        return {part: choose.choice(_PATTERNS) for part in parts}
    if kind == 1:
        return choose.choice((*_ODD, "0000:81:00.0", "0000:08:1f.7"))
    fields = [choose.choice(_PARTS) for _ in range(choose.randrange(1, 5))]
    function = choose.choice(("", ".", ".0", ".*", ".7", ".8", ".x"))
    return ":".join(fields) + function


def _line(choose: random.Random) -> dict[str, object]:
    line: dict[str, object] = {}
    if choose.random() < 0.4:
        line["vendor_id"] = choose.choice(("144d", "144D", " 144d", "8086", "*", "10000", "x"))
    if choose.random() < 0.4:
        line["product_id"] = choose.choice(("a824", "0a54", "A54", "*", "0xa824", " a824", " *"))
    if choose.random() < 0.8:
        line["address"] = _address(choose)
    if choose.random() < 0.1:
        line["devname"] = choose.choice(("", "no-such-interface"))
    for switch in ("managed", "one_time_use", "live_migratable"):
        if choose.random() < 0.1:
            line[switch] = choose.choice(("true", "No", "maybe", True, 0, " on "))
    return line


@pytest.fixture(autouse=True)
def _tracked() -> object:
    CONF.set_override("report_in_placement", True, group="pci")
    CONF.set_override("pci_in_placement", True, group="filter_scheduler")
    yield None
    CONF.reset()


def _of_nova(line: dict[str, object]) -> nova_devspec.PciDeviceSpec | None:
    """None where nova-compute does not start; it meets some mistakes with a traceback."""
    try:
        return nova_devspec.PciDeviceSpec(copy.deepcopy(line))
    except (exception.NovaException, TypeError, AttributeError, ValueError):
        return None


def test_the_same_lines_are_taken_and_match_the_same_devices() -> None:
    choose = random.Random(22)
    taken = matched = 0
    for _ in range(ROUNDS):
        line = _line(choose)
        theirs = _of_nova(line)
        ours, wrong = devicespec.parse([json.dumps(line)])
        assert bool(ours) is (theirs is not None), (line, wrong)
        if theirs is None:
            continue
        taken += 1
        for device in _DEVICES:
            dev_dict = {
                "vendor_id": f"{device.vendor:04x}",
                "product_id": f"{device.product:04x}",
                "address": device.address,
            }
            assert ours[0].matches(device) is theirs.match(dev_dict), (line, device)
            matched += bool(ours[0].matches(device))
        tags = theirs.get_tags()
        assert ours[0].one_time_use is (tags.get("one_time_use") == "true")
        assert ours[0].managed is (tags.get("managed") != "false")
    # The comparison is about something.
    assert taken > ROUNDS / 5
    assert matched > ROUNDS / 5


_ALIAS_VALUES: dict[str, tuple[object, ...]] = {
    "name": ("i1", " i1 ", "", 5, "  "),
    "resource_class": ("CUSTOM_NVME_I1", "nvme.i1", "PGPU", "", 7),
    "vendor_id": ("144d", "144D", "44d", "*", 5197),
    "product_id": ("a824", "A824", "a8245"),
    "device_type": ("type-PCI", "type-PF", "type-VF", "vdpa", "nvme"),
    "numa_policy": ("required", "legacy", "preferred", "socket", "strict"),
    "traits": ("", "fast,CUSTOM_A", 5),
    "live_migratable": ("yes", "no", "maybe", True),
    "capability_type": ("pci", "usb"),
    "colour": ("red",),
}


def test_the_same_aliases_are_taken_and_ask_for_the_same() -> None:
    choose = random.Random(23)
    taken = 0
    for _ in range(ROUNDS):
        names = {"name", *choose.sample(sorted(_ALIAS_VALUES), choose.randrange(6))}
        line = {
            name: choose.choice(
                _ALIAS_VALUES[name][: 1 + choose.randrange(len(_ALIAS_VALUES[name]))]
            )
            for name in names
        }
        CONF.set_override("alias", [json.dumps(line)], group="pci")
        nova_request.get_alias_from_config.cache_clear()
        ours, wrong = alias.parse([json.dumps(line)])
        try:
            ((name, (policy, (spec,))),) = nova_request.get_alias_from_config().items()
        except exception.PciInvalidAlias:
            assert ours == (), line
            continue
        assert wrong == (), line
        taken += 1
        assert ours[0].name == name
        assert ours[0].numa_policy == policy
        assert ours[0].resource_class == RequestSpec._rc_from_request(spec)
        assert ours[0].traits == RequestSpec._traits_from_request(spec)
        assert ours[0].device_type == spec.get("dev_type")
    assert taken > 100


def test_nova_takes_the_aliases_that_flavors_prints(tmp_path: Path) -> None:
    """Nova 32 and later look at them as nova-api and nova-compute start, each with its own file."""
    for name, text in nova_conf(FlavorTerms(), [(Slot("cmp1", "0000:81:00.0"), None)]).items():
        file = tmp_path / f"{name}.conf"
        file.write_text(text)
        CONF.reset()
        CONF.clear_override("pci_in_placement", group="filter_scheduler")
        CONF.clear_override("alias", group="pci")
        CONF([], project="nova", default_config_files=[str(file)], default_config_dirs=[])
        nova_request.get_alias_from_config.cache_clear()
        assert list(nova_request.get_alias_from_config()) == [FlavorTerms().alias], name
