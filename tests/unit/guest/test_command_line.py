"""The machine a guest runs on, as far as it can be told without starting one."""

from pathlib import Path

import pytest

from tests.lab.errors import BuildError
from tests.lab.guest import argv, qemu
from tests.lab.guest.argv import (
    DEFAULT,
    MOST_SLOTS,
    SHORT_TIMEOUTS,
    SLOTS,
    Disks,
    Flavour,
    Sockets,
)
from tests.lab.guest.cache import Cache
from tests.lab.guest.initramfs import load_order
from tests.lab.guest.qemu import ACCELERATOR_VARIABLE, KVM, TCG, Qemu

DISKS = Disks(Path("/t/root"), Path("/t/site"), Path("/t/src"), Path("/t/state"))


def line(accel: str = TCG, flavour: Flavour = DEFAULT, disks: Disks = DISKS) -> list[str]:
    return argv.command_line(accel, Path("/b"), flavour, disks, Sockets(Path("/s")), Path("/c"))


def test_slots_have_the_addresses_of_the_design() -> None:
    assert argv.slot_address(0) == "0000:01:00.0"
    assert argv.slot_address(SLOTS - 1) == "0000:08:00.0"
    assert argv.slot_address(MOST_SLOTS - 1) == "0000:18:00.0"
    for wrong in (-1, MOST_SLOTS):
        with pytest.raises(ValueError, match=f"slot from 0 to {MOST_SLOTS - 1}, got {wrong}"):
            argv.slot_address(wrong)


@pytest.mark.parametrize("slots", [SLOTS, MOST_SLOTS])
def test_every_slot_is_a_root_port_of_its_own(slots: int) -> None:
    wanted = line(flavour=Flavour("some", slots=slots))
    ports = [word for word in wanted if word.startswith("pcie-root-port,")]

    assert len({word.split("addr=")[1] for word in ports}) == slots
    assert len({word.split("chassis=")[1].split(",")[0] for word in ports}) == slots


def test_a_flavour_changes_the_kernels_command_line_only() -> None:
    plain, short = line(), line(flavour=SHORT_TIMEOUTS)
    changed = [pair for pair in zip(plain, short, strict=True) if pair[0] != pair[1]]

    assert [short for _, short in changed] == [changed[0][0] + " nvme_core.admin_timeout=5"]


def test_the_shared_memory_is_what_a_drive_transfers_to() -> None:
    assert "memory-backend-memfd,id=ram,size=1024M,share=on" in line()


def test_a_comma_in_a_path_does_not_become_an_option() -> None:
    strange = Disks(Path("/t/a,b"), DISKS.site, DISKS.sources, DISKS.state)

    assert any(word.startswith("file=/t/a,,b,if=none") for word in line(disks=strange))


def test_the_host_processor_is_used_only_with_kvm() -> None:
    def processor(words: list[str]) -> str:
        return words[words.index("-cpu") + 1]

    assert (processor(line(TCG)), processor(line(KVM))) == ("max", "host")


@pytest.mark.parametrize(
    ("printed", "enough"),
    [
        ("7.2.22 (Debian 1:7.2+dfsg-7)", False),
        ("10.0.2", False),
        ("10.1.0", True),
        ("11.1.3", True),
    ],
)
def test_a_qemu_without_vfio_user_is_too_old(tmp_path: Path, printed: str, enough: bool) -> None:
    program = tmp_path / "qemu"
    program.write_text(f"#!/bin/sh\necho 'QEMU emulator version {printed}'\n")
    program.chmod(0o755)

    assert Qemu((str(program),)).new_enough is enough


@pytest.mark.parametrize(
    ("console", "expected"), [("LAB-PROBE-BOOTED", KVM), ("Probing EDD... ok", TCG)]
)
def test_kvm_is_used_only_after_it_has_booted_a_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: str, expected: str
) -> None:
    # Stands for QEMU: writes to the file named in "-serial file:...", as a guest's console.
    program = tmp_path / "qemu"
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "QEMU emulator version 11.1.3"; exit; fi\n'
        f"for word; do case $word in file:*) echo '{console}' >\"${{word#file:}}\";; esac; done\n"
    )
    program.chmod(0o755)
    monkeypatch.delenv(ACCELERATOR_VARIABLE, raising=False)
    monkeypatch.setattr("os.access", lambda path, mode: True)

    found = qemu.accelerator(Cache(tmp_path / "cache"), Qemu((str(program),)), tmp_path)
    assert found == expected


def test_the_accelerator_can_be_forced_but_not_misspelt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Qemu(("/nonexistent",))
    monkeypatch.setenv(ACCELERATOR_VARIABLE, "kvm")
    assert qemu.accelerator(Cache(tmp_path), nothing, tmp_path) == KVM
    monkeypatch.setenv(ACCELERATOR_VARIABLE, "xen")
    with pytest.raises(BuildError, match=r"expected tcg or kvm .* found 'xen'"):
        qemu.accelerator(Cache(tmp_path), nothing, tmp_path)


def test_modules_are_loaded_after_those_they_need() -> None:
    # As depmod writes it, names and compression suffixes included.
    text = (
        "kernel/drivers/virtio/virtio.ko:\n"
        "kernel/drivers/virtio/virtio_ring.ko: kernel/drivers/virtio/virtio.ko\n"
        "kernel/drivers/block/virtio_blk.ko.xz: kernel/drivers/virtio/virtio_ring.ko"
        " kernel/drivers/virtio/virtio.ko\n"
    )

    order = load_order(text, ("virtio_blk", "virtio"))
    assert [Path(path).name for path in order] == [
        "virtio.ko",
        "virtio_ring.ko",
        "virtio_blk.ko.xz",
    ]
    with pytest.raises(BuildError, match="expected module nvme_tcp"):
        load_order(text, ("nvme_tcp",))
