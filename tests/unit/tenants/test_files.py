"""fstab and mdadm.conf: one line of ours, all else byte for byte as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvme_raid import fstab, mdadmconf
from nvme_raid.errors import Refusal
from nvme_raid.model import Wish

WISH = Wish(drives=2)
NODE = "/dev/md/nvme"
UUID = "4ea6d8c1:0b7c3c1a:5f2e9a77:6d1f0c22"
OWN = ("LABEL=nvme", NODE)
LINE = "UUID=aa /mnt/nvme xfs noatime,nofail,x-systemd.device-timeout=30s,x-nvme-raid=nvme 0 0\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", LINE),
        ("# c\n", "# c\n" + LINE),
        ("/dev/vda1 / ext4 defaults 0 1", "/dev/vda1 / ext4 defaults 0 1\n" + LINE),
        (LINE, LINE),
        (LINE * 2, LINE),
        (LINE.replace("=aa", "=of-other-drives") + "# end\n", LINE + "# end\n"),
        ("UUID=aa /mnt/nvme/ xfs defaults 0 0\n", LINE),
        ('UUID="aa" /mnt/nvme xfs defaults 0 0\n', LINE),
        ("LABEL=nvme /mnt/nvme xfs defaults\n", LINE),
        (f"{NODE}\t/mnt/nvme\txfs\tdefaults\t0\t0\n", LINE),
        # Moved to another mount point: the mark knows it.
        (LINE.replace("/mnt/nvme", "/srv/old"), LINE),
        ("#" + LINE, "#" + LINE + LINE),
        (LINE.replace("=nvme 0", "=other 0").replace("/mnt/nvme", "/srv"), None),
    ],
)
def test_fstab_gets_one_line(before: str, after: str | None) -> None:
    edited = fstab.edited(before, WISH, "aa", OWN)

    assert edited == (before + LINE if after is None else after)
    assert fstab.edited(edited, WISH, "aa", OWN) == edited


def test_the_line_of_another_filesystem_that_is_here_stays() -> None:
    """Two drives, each with a filesystem of its own and both by the default name."""
    other = LINE.replace("UUID=aa /mnt/nvme", "UUID=bb /srv/kafka")

    first = fstab.edited(other, WISH, "aa", OWN, others=("bb",))

    assert first == other + LINE
    kafka = replace(WISH, mount="/srv/kafka")
    assert fstab.edited(first, kafka, "bb", OWN, others=("aa",)) == first
    # Of drives that are gone (stop and start), or of this mount point, there is one line.
    assert fstab.edited(other, WISH, "aa", OWN, others=("cc",)) == LINE
    here = LINE.replace("=aa", "=bb")
    assert fstab.edited(here, WISH, "aa", OWN, others=("bb",)) == LINE


def test_a_line_for_the_same_directory_by_its_real_name_is_seen() -> None:
    wish = replace(WISH, mount="/srv/db")
    ours = fstab.line(wish, "aa") + "\n"
    edited = fstab.edited("UUID=aa /var/srv/db xfs x 0 0\n", wish, "aa", OWN, point="/var/srv/db")

    assert edited == ours
    with pytest.raises(Refusal, match="/dev/vdb' there in line 1"):
        fstab.edited("/dev/vdb /var/srv/db/ xfs x 0 0\n", wish, "aa", OWN, point="/var/srv/db")


def test_units_that_need_the_mount_are_in_its_options() -> None:
    line = fstab.line(replace(WISH, before=("db.service",)), "aa")

    assert (
        ",x-systemd.wanted-by=local-fs.target,x-systemd.before=db.service,"
        "x-systemd.required-by=db.service," in line
    )


@pytest.mark.parametrize("source", ["UUID=bb", "/dev/vdb", "LABEL=data", "tmpfs"])
def test_somebody_elses_line_for_our_mount_point_is_refused(source: str) -> None:
    with pytest.raises(Refusal, match="in line 2; remove"):
        fstab.edited(f"# c\n{source} /mnt/nvme xfs defaults 0 0\n", WISH, "aa", OWN)


LINES = st.lists(
    st.sampled_from(["# c\n", "\n", "a b\n", "/dev/vdb /x ext4 a,b 0 0\n", "\udcff\n", LINE, "x"])
)


@given(LINES)
def test_other_lines_of_fstab_stay_and_a_second_edit_is_none(lines: list[str]) -> None:
    text = "".join(line if line.endswith("\n") else line + "\n" for line in lines)

    edited = fstab.edited(text, WISH, "aa", OWN)

    assert edited.replace(LINE, "", 1) == text.replace(LINE, "")
    assert fstab.edited(edited, WISH, "aa", OWN) == edited


ARRAY = f"ARRAY {NODE} metadata=1.2 UUID={UUID}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, mdadmconf.HEADER + ARRAY),
        ("HOMEHOST <system>", "HOMEHOST <system>\n" + ARRAY),
        (ARRAY, ARRAY),
        (ARRAY * 3, ARRAY),
        (f"ARRAY {NODE} metadata=1.2 UUID=0:0:0:0 name=any:nvme\nMAILADDR root\n", None),
        (f"ARRAY /dev/md127 UUID={UUID.upper()}\nMAILADDR root\n", None),
        (f"array nvme uuid={UUID.replace(':', '')}\nMAILADDR root\n", None),
        # A keyword may be cut to three letters, and a line go on behind a space.
        (f"ARR {NODE}\n  metadata=1.2\n\tUUID=1:2:3:4\nMAILADDR root\n", None),
        (f"ARRAY /dev/md5\n  UUID={UUID}\nMAILADDR root\n", None),
        (
            "ARRAY /dev/md/db UUID=1:2:3:4\n  name=x\n",
            "ARRAY /dev/md/db UUID=1:2:3:4\n  name=x\n" + ARRAY,
        ),
        (f"#ARRAY {NODE} UUID=1:1:1:1\n", f"#ARRAY {NODE} UUID=1:1:1:1\n" + ARRAY),
        ("ARRAY <ignore> UUID=1:2:3:4\n", "ARRAY <ignore> UUID=1:2:3:4\n" + ARRAY),
        ("AUTO -all\n", "AUTO -all\n" + ARRAY),
    ],
)
def test_mdadm_conf_gets_one_line(before: str | None, after: str | None) -> None:
    edited = mdadmconf.edited(before, NODE, UUID)

    assert edited == (ARRAY + "MAILADDR root\n" if after is None else after)
    assert mdadmconf.edited(edited, NODE, UUID) == edited


@given(st.text(alphabet="ARY \t\n#=:0/devmnUID<>x\udc80"))
def test_any_mdadm_conf_can_be_edited_once(text: str) -> None:
    edited = mdadmconf.edited(text, NODE, UUID)

    assert edited.count(ARRAY) == 1
    assert mdadmconf.edited(edited, NODE, UUID) == edited
