"""What cannot be had is refused before anything is looked at, all of it at once."""

from __future__ import annotations

from typing import Any

import pytest
from nvme_raid.errors import Refusal
from nvme_raid.model import Wish
from nvme_raid.wish import checked


@pytest.mark.parametrize(
    "good",
    [
        {},
        {"name": "db-1", "label": "db-1", "mount": "/srv/db", "chunk": 64 << 10},
        {"before": ("postgresql@15-main.service", "srv-x\\x2dy.mount"), "options": ("noatime",)},
        {"mount": "/usrdata", "drives": 8},
        # Services keep their data there, and a /home of its own is an old custom.
        {"mount": "/var/lib/postgresql"},
        {"mount": "/var/log/journal-of-mine"},
        {"mount": "/tmp/scratch"},
        {"mount": "/root/data"},
        {"mount": "/home"},
        {"mount": "/opt"},
        {"mount": "/library"},
    ],
)
def test_these_are_fine(good: dict[str, Any]) -> None:
    wish = Wish(**{"drives": 2, **good})

    assert checked(wish) is wish


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"drives": 0}, "drives"),
        ({"drives": 65}, "drives"),
        ({"name": ""}, "name"),
        ({"name": "md0"}, "name"),
        ({"name": "md_d1"}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "../x"}, "name"),
        ({"name": "x\n"}, "name"),
        ({"label": "thirteen-long"}, "label"),
        ({"label": "-L"}, "label"),
        ({"mount": "/"}, "mount"),
        ({"mount": "srv"}, "mount"),
        ({"mount": "/srv/../etc"}, "mount"),
        ({"mount": "/srv x"}, "mount"),
        ({"mount": "/usr/local/db"}, "mount"),
        ({"mount": "/etc"}, "mount"),
        ({"mount": "/var"}, "mount"),
        ({"mount": "/var/lib"}, "mount"),
        ({"mount": "/var/log"}, "mount"),
        ({"mount": "/var/tmp"}, "mount"),
        ({"mount": "/var/lib/dpkg/info"}, "mount"),
        ({"mount": "/var/run/db"}, "mount"),
        ({"mount": "/root"}, "mount"),
        ({"mount": "/tmp"}, "mount"),
        ({"mount": "/lib64"}, "mount"),
        ({"mount": "/lib64/x"}, "mount"),
        ({"chunk": 0}, "chunk"),
        ({"chunk": 96 << 10}, "chunk"),
        ({"chunk": 128 << 20}, "chunk"),
        ({"options": ("noatime,ro",)}, "mount option"),
        ({"options": ("",)}, "mount option"),
        # After the next boot autofs is mounted there, until somebody looks into the directory.
        ({"options": ("noatime", "x-systemd.automount")}, "mount option"),
        ({"before": ("postgresql",)}, "before"),
        ({"before": ("a.service,x",)}, "before"),
        ({"device_timeout": 0}, "device timeout"),
    ],
)
def test_these_are_refused(bad: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal, match=f"^{said}: expected"):
        checked(Wish(**{"drives": 2, **bad}))


def test_all_reasons_come_at_once() -> None:
    with pytest.raises(Refusal) as caught:
        checked(Wish(drives=0, chunk=1, label=""))

    assert len(caught.value.reasons) == 3
