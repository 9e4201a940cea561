"""Which notifications ring, for whom, and how a storm of them becomes a few looks."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.errors import UnavailableError
from quarantine.listener import Ears, Ringer
from quarantine.listenerbells import WAITING, Bells
from quarantine.listenerhints import Hint, Reader

SERVER = "11111111-1111-4111-8111-111111111111"
ROOT = Path(__file__).resolve().parents[3]


def payload(**fields: Any) -> dict[str, Any]:
    """As Nova sends a versioned object."""
    return {"nova_object.name": "X", "nova_object.version": "1.0", "nova_object.data": fields}


@pytest.mark.parametrize(
    "event",
    [
        "instance.delete.end",
        "instance.shelve_offload.end",
        "instance.resize_confirm.end",
        "instance.resize_revert.end",
        "instance.create.error",
        "instance.resize.error",
        "instance.rebuild.error",
        "instance.evacuate",
        "instance.live_migration_post.end",
        "instance.live_migration_rollback.end",
    ],
)
def test_what_may_have_released_a_drive_names_host_and_instance(event: str) -> None:
    hints = Reader().hints("nova-compute:cmp1", event, payload(host="cmp1", uuid=SERVER))
    assert hints == (Hint(host="cmp1"), Hint(server=SERVER))


@pytest.mark.parametrize(
    "event",
    ["instance.delete.start", "instance.update", "instance.soft_delete.end", "instance.reboot.end"],
)
def test_what_releases_nothing_is_silent(event: str) -> None:
    assert Reader().hints("nova-compute:cmp1", event, payload(host="cmp1", uuid=SERVER)) == ()


def test_the_old_host_of_a_confirmed_resize_is_its_sender() -> None:
    reader = Reader()
    reader.hints("nova-compute:a", "instance.create.end", payload(host="a", node="a.example"))
    moved = payload(host="b", node="b.example", uuid=SERVER)
    hints = reader.hints("nova-compute:a", "instance.resize_confirm.end", moved)
    assert hints == (Hint(host="b.example"), Hint(host="a.example"), Hint(server=SERVER))


def test_the_api_is_no_compute_host() -> None:
    deleted = payload(host=None, node=None, uuid=SERVER)
    hints = Reader().hints("nova-api:control1", "instance.delete.end", deleted)
    assert hints == (Hint(server=SERVER),)


def test_a_failed_task_of_the_conductor_names_the_instance() -> None:
    failed = payload(instance_uuid=SERVER, state="error")
    hints = Reader().hints("nova-conductor:c", "compute_task.build_instances.error", failed)
    assert hints == (Hint(server=SERVER),)


def test_only_compute_services_have_drives() -> None:
    for event in ("service.update", "service.delete"):
        down = payload(host="cmp1", binary="nova-compute")
        assert Reader().hints("nova-compute:cmp1", event, down) == (Hint(host="cmp1"),)
        other = payload(host="cmp1", binary="nova-scheduler")
        assert Reader().hints("nova-scheduler:cmp1", event, other) == ()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.text(),
    st.sampled_from(["instance.delete.end", "service.update", "compute_task.x.error", ""]),
    ANYTHING | st.builds(lambda data: {"nova_object.data": data}, ANYTHING),
)
def test_no_notification_is_too_strange(publisher: str, event: str, strange: object) -> None:
    for hint in Reader().hints(publisher, event, strange):
        assert bool(hint.host) != bool(hint.server)


# Bells


def rings(bells: Bells[str], until: float, step: float = 0.1) -> list[tuple[float, str]]:
    """What rings as time passes."""
    found, now = [], 0.0
    while now <= until:
        while (key := bells.take(now)) is not None:
            found.append((round(now, 3), key))
        now = round(now + step, 3)
    return found


def test_the_first_rings_at_once_and_once_more_when_it_has_settled() -> None:
    bells: Bells[str] = Bells(quiet=2, settle=5)
    bells.ask("a", 0)
    assert bells.due() == 0
    assert rings(bells, 60) == [(0, "a"), (5, "a")]
    assert bells.due() is None


@given(
    st.lists(st.tuples(st.floats(0, 30), st.sampled_from("ab")), min_size=1, max_size=60),
    st.floats(0.1, 5),
    st.floats(0.1, 5),
)
def test_a_storm_is_a_look_now_and_then_and_one_after_it(
    asked: list[tuple[float, str]], quiet: float, settle: float
) -> None:
    bells: Bells[str] = Bells(quiet, settle)
    found: list[tuple[float, str]] = []

    def ring(until: float) -> None:
        while (due := bells.due()) is not None and due <= until:
            key = bells.take(due)
            assert key is not None
            found.append((due, key))

    asked.sort()
    for at, key in asked:
        ring(at)
        bells.ask(key, at)
    ring(1000)
    for name in "ab":
        wanted = [at for at, key in asked if key == name]
        rung = [at for at, key in found if key == name]
        assert all(b - a >= quiet * 0.999 for a, b in itertools.pairwise(rung))
        for at in wanted:
            assert any(at <= ring <= at + quiet for ring in rung), "seen soon"
        assert not wanted or rung[-1] >= max(wanted) + settle, "and seen after it settled"
        assert len(rung) <= len(wanted) * 2


def test_a_flood_of_names_is_bounded_and_counted() -> None:
    bells: Bells[int] = Bells(1, 1)
    for key in range(WAITING + 7):
        bells.ask(key, 0)
    bells.ask(0, 0)
    assert bells.lost == 7
    for now in range(5):
        while bells.take(now) is not None:
            pass
    bells.ask(WAITING + 1, 10)
    assert bells.take(10) == WAITING + 1, "and later ones ring again"


# The thread that rings


class Post:
    """Notes bells; fails while ``away``."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.away = 0

    def __call__(self, hint: dict[str, str]) -> None:
        if self.away:
            self.away -= 1
            raise UnavailableError("broker: away")
        self.sent.append(hint)


def run(ringer: Ringer, seconds: float) -> None:
    thread = threading.Thread(target=ringer.run)
    thread.start()
    time.sleep(seconds)
    ringer.stop()
    thread.join(5)
    assert not thread.is_alive()


def test_a_bell_that_met_an_absent_broker_rings_later() -> None:
    post = Post()
    post.away = 1
    ringer = Ringer(Bells(quiet=0.05, settle=0.1), post, rate=1000)
    ringer.ask(Hint(host="cmp1"))
    run(ringer, 0.6)
    assert {"host": "cmp1"} in post.sent


def test_bells_of_many_hosts_keep_to_the_rate() -> None:
    post = Post()
    ringer = Ringer(Bells(quiet=10, settle=10), post, rate=20)
    for number in range(100):
        ringer.ask(Hint(host=f"cmp{number}"))
    run(ringer, 0.5)
    assert 2 <= len(post.sent) <= 12


def test_a_notification_that_we_cannot_read_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Hint] = []
    ears = Ears(heard.append)
    monkeypatch.setattr(Reader, "hints", lambda *_: 1 / 0)
    ears.info({}, "p", "instance.delete.end", payload(uuid=SERVER), {})
    monkeypatch.undo()
    ears.error({}, "p", "instance.create.error", payload(uuid=SERVER), {})
    assert heard == [Hint(server=SERVER)]


# The verb


def listener(conf: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, *flags, "-m", "quarantine.cli", "--config-file", str(conf), "listener"]
    return subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=60, env={"PATH": "/usr/bin:/bin"}
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "transport_url or messaging_file"),
        ("transport_url = rabbitsecret://u:secret@h/", "transport_url: expected rabbit://"),
        ("transport_url = rabbit://u:secret@h:port/", "transport_url: expected rabbit://"),
        ("messaging_file = /nowhere/nova.conf", "messaging_file"),
    ],
)
def test_a_bus_that_cannot_be_is_one_line_without_the_password(
    tmp_path: Path, text: str, words: str
) -> None:
    conf = tmp_path / "q.conf"
    conf.write_text(f"[notifications]\n{text}\n")
    done = listener(conf)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "secret" not in done.stderr


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    conf = tmp_path / "q.conf"
    conf.write_text("[notifications]\ntransport_url = rabbit://\n")
    program = (
        "import sys; sys.modules['oslo_messaging'] = None; from quarantine import cli; "
        f"sys.exit(cli.main(['--config-file', {str(conf)!r}, 'listener']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "nvme-quarantine[listener]" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_no_other_verb_needs_the_extra() -> None:
    program = (
        "import sys; sys.modules['oslo_messaging'] = None; from quarantine import cli; "
        "list(cli.verbs()); import quarantine.assembly, quarantine.intake"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)
