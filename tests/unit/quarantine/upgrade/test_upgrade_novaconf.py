"""nova.conf as Nova's services read it, and what they would make of it."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from pathlib import Path

import os_resource_classes
import os_traits
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quarantine.errors import BadInputError
from quarantine.upgrade import options
from quarantine.upgrade.facts import ConfigSource, Role
from quarantine.upgrade.nova import alias, devicespec
from quarantine.upgrade.nova.devicespec import PciDevice
from quarantine.upgrade.nova.names import STANDARD_CLASSES, class_name, trait_names

DRIVE = PciDevice("0000:81:00.0", 0x144D, 0xA824)


def read(*paths: Path) -> options.NovaConf:
    return options.nova(ConfigSource(Role.ALL, None, paths))


def lines(*members: object) -> tuple[devicespec.DeviceSpec, ...]:
    specs, wrong = devicespec.parse([json.dumps(member) for member in members])
    assert wrong == ()
    return specs


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_lines_keep_their_order_over_files_and_directories(tmp_path: Path) -> None:
    """oslo.config: of a value given more than once, earlier files come first."""
    first = write(tmp_path / "nova.conf", '[pci]\ndevice_spec = {"vendor_id": "0001"}\n')
    directory = tmp_path / "conf.d"
    directory.mkdir()
    write(directory / "20.conf", '[pci]\ndevice_spec = {"vendor_id": "0003"}\n')
    write(
        directory / "10.conf", '[pci]\ndevice_spec = {"vendor_id": "0002"}\nreport_in_placement=1'
    )
    write(directory / ".hidden.conf", '[pci]\ndevice_spec = {"vendor_id": "0009"}\n')
    write(directory / "README", "not a configuration")
    conf = read(first, directory)
    assert [spec.vendor for spec in conf.device_specs] == [{1}, {2}, {3}]
    assert [spec.number for spec in conf.device_specs] == [1, 2, 3]
    assert conf.report_in_placement
    assert conf.trouble == ()


def test_a_directory_without_a_file_is_not_taken_for_a_service_on_its_defaults(
    tmp_path: Path,
) -> None:
    """Most likely it is the wrong one."""
    (tmp_path / "README").write_text("not a configuration")
    with pytest.raises(BadInputError, match="found none"):
        read(tmp_path)
    empty = tmp_path / "conf.d"
    empty.mkdir()
    # As where a service has a file and a directory, which may be empty.
    assert read(write(tmp_path / "nova.conf", ""), empty).trouble == ()


def test_a_directory_that_may_not_be_looked_into_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beside a file that can be read: what is in it goes before that file's values."""
    file = write(tmp_path / "nova.conf", "")

    def refused(_path: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, refused)
    with pytest.raises(BadInputError, match="Permission denied"):
        read(file, tmp_path)


def test_a_value_of_several_lines_a_list_and_old_names_count(tmp_path: Path) -> None:
    text = (
        "[DEFAULT]\npci_alias = {}\n"
        '[pci]\npassthrough_whitelist = [{"vendor_id": "0001"},\n'
        '    {"vendor_id": "0002", "one_time_use": true}]\n'
    )
    conf = read(write(tmp_path / "nova.conf", text))
    assert [spec.one_time_use for spec in conf.device_specs] == [False, True]
    assert len(conf.wrong_aliases) == 1


def test_one_bad_value_hides_no_other(tmp_path: Path) -> None:
    text = (
        "[pci]\nreport_in_placement = maybe\n"
        "[filter_scheduler]\npci_in_placement = true\n[DEFAULT]\nreclaim_instance_interval = x\n"
    )
    conf = read(write(tmp_path / "nova.conf", text))
    assert conf.pci_in_placement
    assert not conf.report_in_placement
    assert len(conf.trouble) == 2
    assert "[pci]report_in_placement: Unexpected boolean value 'maybe'" in conf.trouble


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=re.escape("absent.conf")):
        read(tmp_path / "absent.conf")
    large = write(tmp_path / "large.conf", "#" * (options.MAX_FILE_BYTES + 1))
    with pytest.raises(BadInputError, match="at most"):
        read(large)


@given(st.binary(max_size=200))
@example(b"[pci]\ndevice_spec = {\n")
@example(b"\xff\xfe[pci]")
@example(b"[pci]\nreport_in_placement = $nothing\n[")
@example(b"[DEFAULT]\nreclaim_instance_interval = 99999999999999999999\n")
def test_no_file_breaks_the_reader(raw: bytes) -> None:
    fuzz(raw)


_SIGNS = st.sampled_from(("=", "{", "}", "[", "]", ":", ",", "$", "%", "*", '"', " ", "\n"))
_WORDS = _SIGNS | st.sampled_from(
    ("[pci]", "[filter_scheduler]", "device_spec", "alias", "vendor_id", "address", "0000:81:00.0")
)


@given(st.lists(_WORDS, max_size=40).map("".join))
def test_no_text_that_looks_like_one_breaks_the_reader(text: str) -> None:
    fuzz(text.encode())


def fuzz(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "nova.conf"
        path.write_bytes(raw)
        conf = read(path)
        for words in (*conf.trouble, *conf.wrong_specs, *conf.wrong_aliases):
            assert len(words) < 1000


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
_PARTS = st.sampled_from(["", "*", "81", "00", "0000", "zz", "1f", " 81", "[0-9a-f]+", "(", "8"])
_ADDRESSES = (
    st.lists(_PARTS, max_size=5).map(":".join)
    | st.tuples(_PARTS, _PARTS, _PARTS, _PARTS).map(lambda t: "{}:{}:{}.{}".format(*t))
    | st.dictionaries(st.sampled_from(["domain", "bus", "slot", "function", "x"]), _PARTS | _JSON)
    | _JSON
)
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "vendor_id": st.sampled_from(["144d", "144D", "*", "10000", "-1", " 144d "]) | _JSON,
        "product_id": st.sampled_from(["a824", "*", "0xa824", "a 8"]) | _JSON,
        "address": _ADDRESSES,
        "devname": st.sampled_from(["eth0", ""]) | _JSON,
        "one_time_use": st.sampled_from(["true", "No", "perhaps", True]) | _JSON,
        "resource_class": st.text(max_size=5) | _JSON,
        "traits": st.text(max_size=5) | _JSON,
    },
)


@given(st.lists(_SPECS | _JSON, max_size=4))
def test_every_line_is_taken_or_named(members: list[object]) -> None:
    values = [json.dumps(member) for member in members]
    specs, wrong = devicespec.parse(values)
    for one in specs:
        assert one.matches(DRIVE) in (True, False)
        assert one.overlaps(one) or one.devname or not all(p is None or p for p in one.address)
        one.class_of(DRIVE)
    assert all(len(words) < 1000 for words in wrong)
    alias.parse(values)


@given(_SPECS, _SPECS)
def test_lines_overlap_wherever_one_device_matches_both(one: object, other: object) -> None:
    specs, _wrong = devicespec.parse([json.dumps([one, other])])
    if len(specs) == 2 and specs[0].matches(DRIVE) and specs[1].matches(DRIVE):
        assert specs[0].overlaps(specs[1])
        assert specs[1].overlaps(specs[0])


@pytest.mark.parametrize(
    ("members", "matches"),
    [
        ({}, True),
        ({"vendor_id": "144d"}, True),
        ({"vendor_id": " 144D "}, True),
        ({"vendor_id": "144d", "product_id": "a825"}, False),
        ({"address": "0000:81:00.0"}, True),
        ({"address": "81:00.0"}, True),
        ({"address": ":81:00."}, True),
        ({"address": "*:81:*.*"}, True),
        ({"address": "00"}, True),
        ({"address": "1f"}, False),
        ({"address": ".0"}, True),
        ({"address": ".1"}, False),
        ({"address": "0:81:0.0"}, True),
        ({"address": "0000:82:00.0"}, False),
        ({"address": {"bus": "8[0-3]"}}, True),
        ({"address": {"bus": "8"}}, True),
        ({"address": {"bus": "8$"}}, False),
        ({"address": {"domain": "0000", "bus": "81", "slot": "00", "function": "[1-7]"}}, False),
        ({"address": ""}, True),
        ({"devname": "eth0"}, False),
    ],
)
def test_lines_match_as_in_nova(members: dict[str, object], matches: bool) -> None:
    """The same rows are held against the real Nova in tests/nova/test_upgrade_devspec.py."""
    (line,) = lines(members)
    assert line.matches(DRIVE) is matches


@pytest.mark.parametrize(
    "members",
    [
        [1],
        {"vendor_id": 5197},
        {"vendor_id": "10000"},
        {"product_id": "nvme"},
        {"address": "0000:81:00:00.0"},
        {"address": "0000:zz:00.0"},
        {"address": "81"},
        {"address": "0000:81:20.0"},
        {"address": "0000:8[1-4]:00.0"},
        {"address": {"bus": "["}},
        {"address": {"bus": 129}},
        {"address": ["0000:81:00.0"]},
        {"address": "0000:81:00.0", "devname": "eth0"},
        {"one_time_use": "perhaps"},
        {"managed": "libvirt"},
    ],
)
def test_lines_that_nova_refuses(members: object) -> None:
    specs, wrong = devicespec.parse([json.dumps(members)])
    assert specs == ()
    assert len(wrong) == 1
    assert wrong[0].startswith("line 1: expected ")


def test_the_first_line_decides_and_a_doubt_is_told() -> None:
    specs = lines({"vendor_id": "8086"}, {"address": "0000:81:00.0"}, {})
    assert devicespec.first(specs, DRIVE) == (specs[1], True)
    assert devicespec.first(specs, PciDevice(DRIVE.address)) == (specs[1], False)
    assert devicespec.first(specs[:1], PciDevice(DRIVE.address)) == (None, False)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ({"address": "*:81:00.*"}, {"address": "0000:81:00.0"}, True),
        ({"address": {"bus": "8[1-4]"}}, {"address": {"bus": "8[4-6]"}}, True),
        ({"address": {"bus": "8[1-3]"}}, {"address": {"bus": "8[4-6]"}}, False),
        ({"vendor_id": "144d"}, {"product_id": "a824"}, True),
        ({"vendor_id": "144d"}, {"vendor_id": "8086"}, False),
        ({"devname": "eth0"}, {}, False),
    ],
)
def test_lines_that_could_take_the_same_device(one: object, other: object, overlap: bool) -> None:
    a, b = lines(one, other)
    assert a.overlaps(b) is overlap
    assert b.overlaps(a) is overlap


@given(st.text(alphabet=st.characters(codec="ascii"), min_size=1, max_size=20))
@example("nvme.i1")
@example("custom_x")
@example("A__b--c")
@example("PGPU")
@example("vcpu")
def test_resource_classes_are_named_as_by_nova(text: str) -> None:
    """``_normalize_resource_class`` of Nova 34, with the libraries that it uses."""
    name = text.upper()
    if name not in os_resource_classes.STANDARDS and not os_resource_classes.is_custom(name):
        name = os_resource_classes.normalize_name(name)
    assert class_name(text, "144d", "a824") == name
    assert set(os_resource_classes.STANDARDS) == STANDARD_CLASSES


@given(st.text(alphabet=st.characters(codec="ascii"), min_size=1, max_size=20))
@example("HW_NIC_SRIOV,fast nvme,CUSTOM_A")
@example("nvme-1t9")
def test_traits_are_named_as_by_nova(text: str) -> None:
    """``_normalize_traits`` of Nova 34. A standard name that does not exist is left to Nova."""
    standard, rest = os_traits.check_traits(text.split(","))
    names = set(standard)
    for name in rest:
        upper = name.upper()
        if re.fullmatch("(HW|COMPUTE|STORAGE|MISC|OWNER)_[A-Z0-9_]+", name):
            names.add(name)
        else:
            names.add(upper if os_traits.is_custom(upper) else os_traits.normalize_name(upper))
    assert trait_names(text) == names


def test_an_alias_without_a_class_gets_the_one_of_its_ids() -> None:
    text = json.dumps({"name": " a ", "vendor_id": "144d", "product_id": "A824"})
    (one,), wrong = alias.parse([text])
    assert (one.name, one.resource_class, one.ids) == (
        "a",
        "CUSTOM_PCI_144D_A824",
        ("144d", "a824"),
    )
    assert one.numa_policy == "legacy"
    assert wrong == ()


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"name": "", "resource_class": "x"},
        {"name": "a"},
        {"name": "a", "vendor_id": "144d"},
        {"name": "a", "vendor_id": "14", "product_id": "a824"},
        {"name": "a", "resource_class": "x", "device_type": "nvme"},
        {"name": "a", "resource_class": "x", "numa_policy": "strict"},
        {"name": "a", "resource_class": 1},
        {"name": "a", "resource_class": "x", "live_migratable": "perhaps"},
        {"name": "a", "resource_class": "x", "one_time_use": "true"},
        [],
    ],
)
def test_aliases_that_nova_refuses(members: object) -> None:
    found, wrong = alias.parse([json.dumps(members)])
    assert found == ()
    assert len(wrong) == 1
