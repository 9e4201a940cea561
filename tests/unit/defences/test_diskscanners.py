"""Programs that ask no udev: seen where they run, and not where somebody took care."""

from __future__ import annotations

from pathlib import Path

import pytest

from eraser.defences import diskscanners
from eraser.host.sysfs import Host

LOCAL, NETWORK = "cloud-init-local.service", "cloud-init-network.service"


def put(root: Path, place: str, text: str = "") -> None:
    path = root / place.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def link(root: Path, place: str, target: str) -> None:
    path = root / place.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def enable(root: Path, unit: str, by: str = "cloud-init.target") -> None:
    put(root, f"/usr/lib/systemd/system/{unit}", "[Unit]")
    link(root, f"/etc/systemd/system/{by}.wants/{unit}", f"/usr/lib/systemd/system/{unit}")


def names(root: Path) -> list[str]:
    return [each.name for each in diskscanners.found(Host(root)).programs]


@pytest.fixture
def cloud(tmp_path: Path) -> Path:
    """A host as a distribution's image has it."""
    put(tmp_path, "/proc/cmdline", "root=/dev/sda1 ro")
    put(tmp_path, "/etc/cloud/cloud.cfg", "users: [default]")
    for unit in (LOCAL, NETWORK, "cloud-final.service"):
        enable(tmp_path, unit)
    return tmp_path


def test_a_host_without_any_of_them(tmp_path: Path) -> None:
    assert diskscanners.found(Host(tmp_path)) == diskscanners.Found((), ())


def test_cloud_init_as_it_is_installed(cloud: Path) -> None:
    (found,) = diskscanners.found(Host(cloud)).programs
    assert found.name == "cloud-init"
    assert "--disable-cloud-init" in found.line


def test_its_file_or_the_kernels_line_disables_it(cloud: Path) -> None:
    put(cloud, "/proc/cmdline", "ro cloud-init=disabled")
    assert names(cloud) == []
    put(cloud, "/proc/cmdline", "ro")
    put(cloud, diskscanners.CLOUD_INIT_OFF)
    assert names(cloud) == []


def test_what_searches_has_to_be_masked(cloud: Path) -> None:
    for unit in ("cloud-final.service", LOCAL):
        link(cloud, f"/etc/systemd/system/{unit}", "/dev/null")
        assert names(cloud) == ["cloud-init"], "the network's stage wants the others"
    put(cloud, f"/etc/systemd/system/{NETWORK}")
    assert names(cloud) == []


def test_where_no_unit_is_enabled_it_never_runs(cloud: Path) -> None:
    wants = cloud / "etc/systemd/system/cloud-init.target.wants"
    for unit in (LOCAL, NETWORK):
        (wants / unit).unlink()
    assert names(cloud) == ["cloud-init"], "the last stage pulls in all before it"
    (wants / "cloud-final.service").unlink()
    assert names(cloud) == []


@pytest.mark.parametrize(
    ("files", "line", "found"),
    [
        ({"90_dpkg.cfg": "datasource_list: [ MAAS, None ] # maas"}, "", []),
        ({"90_dpkg.cfg": "# two\ndatasource_list: ['None']\n"}, "", []),
        ({"90_dpkg.cfg": "datasource_list: [ NoCloud, None ]"}, "", ["cloud-init"]),
        ({"90_dpkg.cfg": "datasource_list: [ ConfigDrive ]"}, "", ["cloud-init"]),
        ({"90_dpkg.cfg": "datasource_list: []"}, "", ["cloud-init"]),
        ({"90_dpkg.cfg": "datasource_list:\n - None\n"}, "", ["cloud-init"]),
        # The last file counts.
        ({"10.cfg": "datasource_list: [OVF]", "99.cfg": "datasource_list: [None]"}, "", []),
        (
            {"10.cfg": "datasource_list: [None]", "99.cfg": '"datasource_list": [OVF]'},
            "",
            ["cloud-init"],
        ),
        ({"99.cfg.off": "datasource_list: [None]"}, "", ["cloud-init"]),
        # The kernel's line goes before the files.
        ({"99.cfg": "datasource_list: [None]"}, "ro ds=nocloud", ["cloud-init"]),
        ({"99.cfg": "datasource_list: [None]"}, "ro ci.ds=ConfigDrive", ["cloud-init"]),
        ({"99.cfg": "datasource_list: [None]"}, "cc:{datasource_list: [OVF]}", ["cloud-init"]),
    ],
)
def test_sources_that_read_no_disk(
    cloud: Path, files: dict[str, str], line: str, found: list[str]
) -> None:
    put(cloud, "/proc/cmdline", line)
    for name, text in files.items():
        put(cloud, f"/etc/cloud/cloud.cfg.d/{name}", text)
    assert names(cloud) == found


def test_glean_runs_unless_its_units_are_masked(tmp_path: Path) -> None:
    for unit in ("glean@.service", "glean-early.service"):
        put(tmp_path, f"/usr/lib/systemd/system/{unit}", "[Unit]")
    assert names(tmp_path) == ["glean"]
    link(tmp_path, "/etc/systemd/system/glean@.service", "/dev/null")
    assert names(tmp_path) == ["glean"]
    link(tmp_path, "/etc/systemd/system/glean-early.service", "/dev/null")
    assert names(tmp_path) == []


def test_os_prober_runs_unless_grub_was_told(tmp_path: Path) -> None:
    put(tmp_path, "/usr/bin/os-prober")
    assert names(tmp_path) == ["os-prober"]
    put(tmp_path, "/usr/sbin/grub-mkconfig", '# security\nGRUB_DISABLE_OS_PROBER="true"\n')
    assert names(tmp_path) == []
    put(tmp_path, "/etc/default/grub", "GRUB_DISABLE_OS_PROBER=false\n")
    assert names(tmp_path) == ["os-prober"]
    put(tmp_path, "/etc/default/grub.d/50.cfg", "GRUB_DISABLE_OS_PROBER='true'\n")
    assert names(tmp_path) == []


def test_zfs_scans_where_it_has_no_list_of_its_own_pools(tmp_path: Path) -> None:
    put(tmp_path, "/usr/lib/systemd/system/zfs-import-scan.service", "[Unit]")
    assert names(tmp_path) == []
    enable(tmp_path, "zfs-import-scan.service", "zfs-import.target")
    assert names(tmp_path) == ["zfs-import-scan"]
    put(tmp_path, "/etc/zfs/zpool.cache", "x")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("root", "found"),
    [
        ("root=LABEL=cloudimg-rootfs ro", ["initramfs (root=LABEL)"]),
        ("ro root=PARTLABEL=root", ["initramfs (root=LABEL)"]),
        ("root=UUID=5c9a ro", []),
        ("root=/dev/mapper/vg-root rootlabel=LABEL=x", []),
    ],
)
def test_a_root_that_is_looked_for_by_its_label(
    tmp_path: Path, root: str, found: list[str]
) -> None:
    put(tmp_path, "/proc/cmdline", root)
    assert names(tmp_path) == [], "dracut asks udev"
    put(tmp_path, "/usr/sbin/update-initramfs")
    assert names(tmp_path) == found


def test_what_is_no_directory_or_no_file_says_nothing(cloud: Path) -> None:
    put(cloud, "/etc/systemd/system/odd.wants")
    (cloud / "etc/cloud/cloud.cfg.d/x.cfg").mkdir(parents=True)
    assert names(cloud) == ["cloud-init"]


def test_one_that_cannot_be_looked_at_hides_no_other(cloud: Path) -> None:
    put(cloud, "/usr/bin/os-prober")
    link(cloud, "/etc/default/grub", "grub")
    found = diskscanners.found(Host(cloud))
    assert [each.name for each in found.programs] == ["cloud-init"]
    (unclear,) = found.unclear
    assert unclear.startswith("whether os-prober runs here cannot be told: ")


def test_a_multipathd_in_a_container_that_lacks_our_file_is_named(tmp_path: Path) -> None:
    """As Kolla has it: it reads an /etc of its own."""
    link(tmp_path, "/proc/self/ns/mnt", "mnt:[1]")
    put(tmp_path, "/proc/70/stat", "70 (multipathd) S " + "0 " * 20)
    link(tmp_path, "/proc/70/ns/mnt", "mnt:[1]")
    assert names(tmp_path) == [], "it sees the host's files"
    (tmp_path / "proc/70/ns/mnt").unlink()
    link(tmp_path, "/proc/70/ns/mnt", "mnt:[2]")
    (found,) = diskscanners.found(Host(tmp_path)).programs
    assert found.line.startswith("multipathd (container) has not host-setup's file: it makes one")
    put(tmp_path, f"/proc/70/root{diskscanners.MULTIPATH_CONF}")
    assert names(tmp_path) == []


def test_a_plain_multipathd_that_is_seen_from_a_namespace_of_its_own_is_in_no_container(
    tmp_path: Path,
) -> None:
    """The worker's unit has one. That the file is gone is told as drift."""
    link(tmp_path, "/proc/self/ns/mnt", "mnt:[2]")
    put(tmp_path, "/proc/70/stat", "70 (multipathd) S " + "0 " * 20)
    put(tmp_path, "/etc/hostname")
    for process, namespace in (("1", "mnt:[1]"), ("70", "mnt:[1]")):
        link(tmp_path, f"/proc/{process}/ns/mnt", namespace)
        link(tmp_path, f"/proc/{process}/root", str(tmp_path))
    assert names(tmp_path) == []
    (tmp_path / "proc/70/root").unlink()
    put(tmp_path, "/proc/70/root/etc/hostname")
    assert names(tmp_path) == ["multipathd (container)"]
