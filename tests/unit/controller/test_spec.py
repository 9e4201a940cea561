"""Parsers against bytes of an independent producer, of the standard's layout, and of nobody."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eraser.controller import spec
from eraser.controller.spec import IdentifyController, IdentifyNamespace, SanitizeLog, SmartLog
from eraser.erase.plan import Capabilities, offers
from eraser.errors import DriveError
from eraser.protocol.policy import Method

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def test_qemus_controller() -> None:
    found = IdentifyController.parse(sample("id-ctrl.bin"))
    assert (found.vendor_id, found.subsystem_vendor_id) == (0x1B36, 0x1AF4)
    assert found.serial == "STOCK <b>&0"
    assert found.model == "QEMU NVMe Ctrl"
    assert found.firmware == "11.1.3"
    assert found.version == 0x00010400
    assert found.oacs == 0x12B
    assert found.can_format
    assert found.can_manage_namespaces
    assert not found.can_manage_firmware
    assert found.fna == 0
    assert not found.can_sanitize
    assert found.saves_features
    assert found.subnqn.startswith("nqn.2019-08.org.qemu:")


def test_qemus_namespace() -> None:
    found = IdentifyNamespace.parse(sample("id-ns-1.bin"))
    assert (found.blocks, found.block_bytes, found.metadata_bytes) == (131072, 512, 0)
    assert found.size == 64 << 20
    assert found.lba_format == 0
    assert found.dlfeat == 9
    assert found.expected_byte == 0
    assert not found.write_protected
    formatted = IdentifyNamespace.parse(sample("id-ns-1-4k.bin"))
    assert (formatted.lba_format, formatted.block_bytes) == (4, 4096)
    assert formatted.size == 64 << 20


def test_qemus_logs_and_list() -> None:
    assert spec.namespace_list(sample("active.bin")) == (1,)
    smart = SmartLog.parse(sample("smart.bin"))
    assert (smart.temperature_kelvin, smart.percentage_used) == (323, 0)
    assert smart.critical_warning == 0


def controller(**fields: int) -> IdentifyController:
    raw = bytearray(sample("id-ctrl.bin"))
    for name, value in fields.items():
        offset, kind = {"sanicap": (328, "<I"), "fna": (524, "<B"), "oacs": (256, "<H")}[name]
        struct.pack_into(kind, raw, offset, value)
    return IdentifyController.parse(bytes(raw))


@pytest.mark.parametrize(
    ("sanicap", "crypto", "block", "inhibited"),
    [
        (0x0, False, False, False),
        (0x1, True, False, False),
        (0x2, False, True, False),
        (0x4, False, False, False),
        (0xA0000003, True, True, True),
    ],
)
def test_sanicap(sanicap: int, crypto: bool, block: bool, inhibited: bool) -> None:
    found = controller(sanicap=sanicap)
    offered = Capabilities.of(found)
    assert offers(Method.SANITIZE_CRYPTO, offered) == crypto
    assert offers(Method.SANITIZE_BLOCK, offered) == block
    assert found.can_sanitize == bool(sanicap & 7)


@pytest.mark.parametrize("bit", range(4))
def test_fna(bit: int) -> None:
    found = controller(fna=1 << bit)
    assert offers(Method.FORMAT_CRYPTO, Capabilities.of(found)) == (bit == 2)


@pytest.mark.parametrize(
    ("dlfeat", "byte"), [(0, None), (1, 0), (2, 0xFF), (3, None), (9, 0), (0x1A, 0xFF), (7, None)]
)
def test_dlfeat(dlfeat: int, byte: int | None) -> None:
    assert spec.deallocated_byte(dlfeat) == byte


def sanitize_log(sprog: int, sstat: int, cdw10: int, *estimates: int) -> bytes:
    """Base 2.0, 5.16.1.25: SPROG, SSTAT, SCDW10, then the estimated times."""
    return struct.pack("<HHI6I", sprog, sstat, cdw10, *(*estimates, *[0] * 6)[:6]).ljust(512, b"\0")


def test_sanitize_log() -> None:
    running = SanitizeLog.parse(sanitize_log(0x4000, 0x2, 4, 0xFFFFFFFF, 120, 0))
    assert running.state is spec.SanitizeState.RUNNING
    assert running.fraction == 0.25
    assert (running.overwrite_seconds, running.block_seconds, running.crypto_seconds) == (
        None,
        120,
        0,
    )
    done = SanitizeLog.parse(sanitize_log(0xFFFF, 0x101, 2))
    assert (done.state, done.global_data_erased, done.cdw10) == (
        spec.SanitizeState.SUCCESS,
        True,
        2,
    )
    assert done.fraction == 1
    written = SanitizeLog.parse(sanitize_log(0xFFFF, 0x1 | 3 << 3, 3))
    assert (written.global_data_erased, written.passes) == (False, 3)
    assert SanitizeLog.parse(sanitize_log(0xFFFF, 3, 2)).state is spec.SanitizeState.FAILED
    kind = SanitizeLog.parse(sanitize_log(0xFFFF, 4, 2)).state
    assert kind is spec.SanitizeState.SUCCESS_NO_DEALLOC
    assert SanitizeLog.parse(bytes(512)).state is spec.SanitizeState.NEVER
    for reserved in (5, 6, 7):
        with pytest.raises(DriveError, match="SSTAT"):
            SanitizeLog.parse(sanitize_log(0, reserved, 0))


@pytest.mark.parametrize(
    ("offset", "value", "match"),
    [(0, bytes(8), "not an active"), (26, b"\x0f", "LBA format"), (130 + 0, b"\x03", "LBA format")],
)
def test_impossible_namespaces(offset: int, value: bytes, match: str) -> None:
    raw = bytearray(sample("id-ns-1.bin"))
    raw[offset : offset + len(value)] = value
    with pytest.raises(DriveError, match=match):
        IdentifyNamespace.parse(bytes(raw))


def test_more_than_sixteen_formats() -> None:
    """FLBAS bits 6:5 are the high bits of the index there, and only there."""
    raw = bytearray(sample("id-ns-1.bin"))
    raw[25], raw[26] = 17, 0x20 | 0x1
    struct.pack_into("<I", raw, 128 + 4 * 17, 12 << 16 | 8)
    found = IdentifyNamespace.parse(bytes(raw))
    assert (found.lba_format, found.block_bytes, found.metadata_bytes) == (17, 4096, 8)
    raw[25] = 7
    assert IdentifyNamespace.parse(bytes(raw)).lba_format == 1
    # Those of attributes of their own come behind the others and are counted beside them (NULBAF,
    # byte 82); a host that knows of them may format a namespace so.
    raw[82] = 10
    assert IdentifyNamespace.parse(bytes(raw)).lba_format == 17


def test_a_hostile_serial_is_kept_as_it_is() -> None:
    raw = bytearray(sample("id-ctrl.bin"))
    raw[4:24] = b"../../x<b>\xff\0y".ljust(20)
    assert IdentifyController.parse(bytes(raw)).serial == "../../x<b>ÿ\0y"


@pytest.mark.parametrize(
    "parse",
    [
        IdentifyController.parse,
        IdentifyNamespace.parse,
        SanitizeLog.parse,
        SmartLog.parse,
        spec.namespace_list,
    ],
)
@settings(deadline=None)
@given(data=st.data())
def test_any_bytes_are_facts_or_a_drive_error(parse, data: st.DataObject) -> None:  # type: ignore[no-untyped-def]
    size = data.draw(st.sampled_from([0, 1, 31, 32, 511, 512, 4095, 4096]))
    seeds = st.one_of(
        st.binary(min_size=0, max_size=64).map(lambda part: (part * (size + 1))[:size]),
        st.sampled_from(["id-ctrl.bin", "id-ns-1.bin"]).map(lambda name: sample(name)[:size]),
    )
    raw = bytearray(data.draw(seeds))
    for _ in range(data.draw(st.integers(0, 6))):
        if raw:
            raw[data.draw(st.integers(0, min(len(raw), 600) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = parse(bytes(raw))
    except DriveError:
        return
    if isinstance(found, IdentifyNamespace):
        assert found.size > 0
        assert found.metadata_bytes >= 0
    if isinstance(found, SanitizeLog):
        assert 0 <= found.fraction <= 1


@pytest.mark.parametrize(
    ("descriptors", "found"),
    [
        (b"", None),
        (b"\x04\x01\0\0\x02", 2),
        (b"\x02\x10\0\0" + bytes(16) + b"\x04\x01\0\0\x02", 2),
        (b"\x01\x08\0\0" + bytes(8), None),
        (b"\x04\x00\0\0\x02", None),
        (b"\x04\x02\0\0\x02\x02", None),
        (b"\x00\x08\0\0" + bytes(8) + b"\x04\x01\0\0\x02", None),
        (b"\x09\xff\0\0" + bytes(255) + b"\x04\x01\0\0\x02", 2),
    ],
)
def test_the_command_set_of_a_namespace(descriptors: bytes, found: int | None) -> None:
    """None where none is named, and behind what ends the list."""
    assert spec.command_set(descriptors.ljust(4096, b"\0")) == found
    with pytest.raises(DriveError):
        spec.command_set(descriptors[:4000])


def test_a_list_of_descriptors_without_end() -> None:
    assert spec.command_set((b"\x09\x01\0\0\0" * 820)[:4096]) is None
    assert spec.command_set(b"\xff" * 4096) is None
    assert spec.command_set((bytes([9, 0xFF, 0, 0]) * 1024)[:4092] + b"\x04\x01\0\0") is None


def test_a_drive_that_has_room_for_no_namespace_is_named_with_what_to_do() -> None:
    raw = bytearray(sample("id-ctrl.bin"))
    raw[516:520] = bytes(4)
    with pytest.raises(DriveError) as caught:
        IdentifyController.parse(bytes(raw))
    said = str(caught.value)
    assert "\n" not in said
    assert "expected NN of at least 1, found 0" in said
    assert "power-cycle the slot" in said
