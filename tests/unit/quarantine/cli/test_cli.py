"""The command line: one clear line for bad input, its exit code, and nothing changed."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.policy import Method, Policy, Quirk
from eraser.protocol.report import Hello, SeenDrive
from eraser.protocol.transport.signing import PrivateKey
from quarantine import cli, users
from quarantine.cli.commands.service import set_up_logging
from quarantine.errors import BadInputError, UnavailableError
from quarantine.evidence import attestations, certificate
from quarantine.evidence.certificate import Link
from quarantine.evidence.sections import Issuer
from quarantine.operations import decisions
from quarantine.operations.papers import certificates
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, NewCertificate, SlotChanges
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import Event, State
from quarantine.rules.alarmbook import SlotInState, alarm
from quarantine.service.assembly import Assembly
from tests.unit.quarantine.evidence.test_certificate import KEY, evidence_of, issue
from tests.unit.quarantine.testimony import IDENTITY, ORDER, PROFILE, REPORT, SLOT

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A configuration whose files are all in the test's directory."""
    file = tmp_path / "nvme-quarantine.conf"
    file.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
        f"certificates_dir = {tmp_path}/certificates\nheads_dir = {tmp_path}/heads\n"
        "[broker]\nurl = redis://127.0.0.1:1/0\ntimeout = 0.5\n"
        "[placement]\ncloud = no-such-cloud\n"
    )
    return file


@pytest.fixture
def run(conf: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """One command: exit code, stdout, stderr."""

    def call(*words: object) -> tuple[int, str, str]:
        code = cli.main(["--config-file", str(conf), *map(str, words)])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


@pytest.fixture
def ready(run: Cli) -> Cli:
    """A control plane with a key and an empty record."""
    assert run("db", "upgrade")[0] == 0
    assert run("key", "create")[0] == 0
    return run


def refused(answer: tuple[int, str, str], code: int, words: str) -> None:
    """One line on stderr, nothing on stdout."""
    assert answer[0] == code, answer
    assert answer[1] == ""
    assert answer[2].startswith("nvme-quarantine: ")
    assert answer[2].count("\n") == 1
    assert words in answer[2]
    assert "Traceback" not in answer[2]


def save(path: Path, value: object) -> Path:
    path.write_bytes(codec.canonical(value))
    return path


def card(path: Path, **changes: Any) -> Path:
    key = PrivateKey.generate().public.jwk()
    return save(path, {"host": "cmp1", "incarnation": "incarnation-00001", "key": key, **changes})


def enrolled(conf: Path) -> Store:
    """The record with one slot whose drive is known, in quarantine."""
    store = Store.open(f"sqlite:///{conf.parent}/record.db")
    record = store.enrol(
        SLOT, provider="p", resource_class="C", in_use=False, profile="x", policy="purge"
    )
    record = store.transition(record, Event.CUSTODY_TAKEN)
    store.amend(record, SlotChanges(identity=IDENTITY))
    return store


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[erase]\nresend_after = soon\n", "resend_after"),
        ("[erase]\nresend_afterr = 5\n", "resend_afterr"),
        ("[erased]\nresend_after = 5\n", "erased"),
        ("no section\n", "configuration"),
        ("\0\xff", "configuration"),
    ],
)
def test_a_malformed_configuration(run: Cli, conf: Path, text: str, words: str) -> None:
    conf.write_text(text, encoding="latin-1")
    refused(run("slot", "list"), 2, words)
    assert sorted(path.name for path in conf.parent.iterdir()) == [conf.name]


def test_a_configuration_that_is_not_there(run: Cli, conf: Path) -> None:
    conf.unlink()
    refused(run("slot", "list"), 2, str(conf))


def test_a_record_without_a_schema(run: Cli) -> None:
    refused(run("slot", "list"), 6, "db upgrade")


@pytest.mark.parametrize(
    "words",
    [
        ("slot", "list", "--foo"),
        ("slot", "list", "--state", "gone"),
        ("slot", "list", "-f", "xml"),
        ("frobnicate",),
        ("host",),
        (),
        ("slot", "release", str(SLOT)),
        ("slot", "enrol", "--host", "cmp1"),
    ],
)
def test_malformed_options(ready: Cli, words: tuple[str, ...]) -> None:
    refused(ready(*words), 2, "--help")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("slot", "list", "--limit", "some"), "expected a number from 1 on, found 'some'"),
        (("slot", "list", "--limit", "9" * 5000), "expected a number from 1 on"),
        (("campaign", "preview", "--model", "x", "--keep", "half"), "0 to 1, found 'half'"),
        (("policy", "show", "p", "--model", "x", "--vendor-id", "Intel"), "such as 0x144d"),
        (("policy", "show", "p", "--model", "x", "--vendor-id", "0x1144d"), "such as 0x144d"),
        (("upgrade", "check", "--silent-after", "nan"), "expected seconds, found 'nan'"),
    ],
)
def test_a_number_that_is_none_is_told_in_words_of_ours(
    ready: Cli, words: tuple[str, ...], complaint: str
) -> None:
    """And not by the name of the function that reads it."""
    found = ready(*words)
    refused(found, 2, complaint)
    assert "value" not in found[2]
    assert len(found[2]) < 300


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 10**30])
def test_however_many_are_asked_for_all_are_given(ready: Cli, conf: Path, number: int) -> None:
    enrolled(conf).close()
    found = ready("slot", "list", "-f", "json", "--limit", number)
    assert found == ready("slot", "list", "-f", "json", "--all")
    assert found[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("campaign", "preview", "--model", "{}"),
        ("host", "remove", "{}"),
        ("profile", "show", "{}"),
        ("slot", "enrol", "--resource-class", "{}", "--profile", "x", "--plan"),
        ("broker", "acl", "--host", "{}"),
        # These were told that a row of the record is damaged.
        ("certificate", "show", "{}"),
        ("host", "show", "{}"),
    ],
)
def test_bytes_that_are_no_text_are_one_line(ready: Cli, words: tuple[str, ...]) -> None:
    """As Python has the byte FFh of a command line in UTF-8 (PEP 383)."""
    refused(ready(*(word.format("cmp\udcff") for word in words)), 2, "expected text")


def test_a_file_may_have_a_name_of_any_bytes(ready: Cli, tmp_path: Path) -> None:
    name = os.fsdecode(b"nova-\xff.conf")
    (tmp_path / name).write_text("")
    code, out, _err = ready("upgrade", "check", "--nova-conf", f"all={tmp_path / name}")
    assert code in (0, 1, 2)
    assert "checks:" in out


def test_help_says_what_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["certificate", "verify", "--help"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert not ended.value.code
        out = capsys.readouterr().out
        assert "exit codes:" in out
        assert "a certificate or the chain" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("slot", "show", "cmp1"), "slot"),
        (("slot", "show", "cmp1/nonsense"), "PCI address"),
        (("slot", "show", "../etc/0000:01:00.0"), "host name"),
        (("slot", "show", "cmp1/0000:09:00.0"), "enrolled"),
        (("slot", "history", "cmp1/0000:09:00.0"), "enrolled"),
        (("slot", "hold", "cmp1/0000:09:00.0", "--reason", "x"), "enrolled"),
        (("host", "show", "cmp9"), "registered"),
        (("host", "remove", "cmp9"), "registered"),
        (("profile", "show", "p"), "approved"),
        (("policy", "show", "p"), "approved"),
        (("certificate", "show", "0" * 64), "record"),
        (("certificate", "html", "cmp1/0000:01:00.0"), "record"),
        (("slot", "enrol", "--host", "cmp1", "--pci", "x", "--profile", "p"), "PCI address"),
        (
            ("slot", "enrol", "--host", "cmp1", "--pci", "0000:01:00.0", "--profile", "p"),
            "approved",
        ),
    ],
)
def test_names_that_mean_nothing(ready: Cli, words: tuple[str, ...], complaint: str) -> None:
    refused(ready(*words), 2, complaint)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"host": 1}', b"\xff\xfe\0", b'{"x": {}}'])
@pytest.mark.parametrize("verb", ["host register", "profile approve", "policy approve"])
def test_malformed_files_change_nothing(ready: Cli, tmp_path: Path, verb: str, raw: bytes) -> None:
    file = tmp_path / "input"
    file.write_bytes(raw)
    by = [] if verb == "host register" else ["--by", "me"]
    refused(ready(*verb.split(), file, *by), 2, str(file))
    refused(ready(*verb.split(), tmp_path / "absent", *by), 2, "absent")
    assert ready(verb.split()[0], "list", "-f", "json")[1].strip() == "[]"


def test_a_private_key_is_never_registered(ready: Cli, tmp_path: Path) -> None:
    jwk = {**PrivateKey.generate().public.jwk(), "d": "c2VjcmV0"}
    refused(ready("host", "register", card(tmp_path / "h", key=jwk)), 2, "private")
    refused(ready("host", "register", card(tmp_path / "h", incarnation="x")), 2, "incarnation")
    refused(ready("host", "register", card(tmp_path / "h", host="../x")), 2, "host name")
    assert json.loads(ready("host", "list", "-f", "json")[1]) == []


def test_a_host_is_registered_once_and_replaced_on_purpose(ready: Cli, tmp_path: Path) -> None:
    file = card(tmp_path / "host.json")
    code, out, _err = ready("host", "register", file, "-f", "json")
    assert (code, json.loads(out)["host"]) == (0, "cmp1")
    assert ready("host", "register", file)[0] == 0
    other = card(tmp_path / "other.json", incarnation="incarnation-00002")
    refused(ready("host", "register", other), 3, "on purpose")
    assert ready("host", "register", other, "--replace")[0] == 0
    shown = json.loads(ready("host", "show", "cmp1", "-f", "json")[1])
    assert shown["incarnation"] == "incarnation-00002"
    assert "cmp1" in ready("host", "list")[1]
    assert ready("host", "remove", "cmp1")[0] == 0
    refused(ready("host", "show", "cmp1"), 2, "registered")


@pytest.mark.parametrize("required", [True, False])
def test_what_is_on_offer_on_a_host_that_is_removed_is_named(
    ready: Cli, conf: Path, tmp_path: Path, *, required: bool
) -> None:
    """Nobody's word keeps it on offer: the service takes it back, where tickets are required."""
    if not required:
        conf.write_text(conf.read_text() + "[gate]\nrequired = false\n")
    ready("host", "register", card(tmp_path / "host.json"))
    record = enrolled(conf).slots()[0]
    store = Store.open(f"sqlite:///{conf.parent}/record.db")
    ordered = SlotChanges(order_id="o" * 16, nonce="n" * 16, order_token="jws")
    record = store.transition(record, Event.ORDERED, changes=ordered)
    paper = NewCertificate("token", "5" * 64, "")
    record = store.transition(record, Event.CERTIFIED, certificate=paper)
    store.transition(record, Event.RETURNED)
    code, out, err = ready("host", "remove", "cmp1", "-f", "json")
    assert (code, json.loads(out)["taken_back"]) == (0, [str(SLOT)] * required)
    assert (f"{SLOT} is on offer" in err) is required


def test_documents_are_approved_by_a_person(ready: Cli, tmp_path: Path) -> None:
    profile, policy = save(tmp_path / "p", PROFILE), save(tmp_path / "q", Policy(name="mild"))
    refused(ready("profile", "approve", profile, "--by", " "), 2, "person")
    assert ready("profile", "approve", profile, "--by", "Ada")[0] == 0
    why = ["--reason", "as agreed"]
    assert ready("policy", "approve", policy, "--by", "Ada", *why)[0] == 0
    shown = json.loads(ready("policy", "show", "mild", "-f", "json")[1])
    assert (shown["approved_by"], shown["reason"]) == ("Ada", "as agreed")
    found = json.loads(ready("profile", "list", "-f", "json")[1])
    assert [(one["name"], one["approved_by"]) for one in found] == [(PROFILE.name, "Ada")]
    assert '"firmware"' in ready("profile", "show", PROFILE.name)[1]
    assert json.loads(ready("policy", "show", "mild", "-f", "json")[1])["content"]["name"] == "mild"


def test_a_key_is_private_and_never_overwritten(run: Cli, tmp_path: Path) -> None:
    code, out, _err = run("key", "create")
    file = tmp_path / "controller.pem"
    assert code == 0
    assert "d" not in json.loads(out)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    before = file.read_bytes()
    refused(run("key", "create"), 2, "move the old one away")
    assert file.read_bytes() == before
    assert json.loads(run("key", "show")[1]) == json.loads(out)
    refused(run("key", "create", "--output", tmp_path / "no" / "key"), 2, "key create")


def test_a_key_that_finds_no_room_leaves_nothing(
    run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a key would be in the way of the next one."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        refused(run("key", "create"), 2, "No space left")
    assert not (tmp_path / "controller.pem").exists()
    assert run("key", "create")[0] == 0


def test_a_key_that_root_makes_is_its_service_s(
    run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _file, user, group: given.append((user, group)))
    code, _out, err = run("key", "create")
    there = tmp_path.stat()
    assert (code, given) == (0, [(there.st_uid, there.st_gid)])
    assert f"{tmp_path}/controller.pem has mode 0600" in err
    assert "the service has to run as its owner" in err


def test_slots_are_shown_without_cloud_or_broker(ready: Cli, conf: Path) -> None:
    enrolled(conf)
    found = json.loads(ready("slot", "list", "-f", "json")[1])
    assert [(one["slot"], one["state"]) for one in found] == [(str(SLOT), "quarantined")]
    assert "order_token" not in found[0]
    assert IDENTITY.serial in ready("slot", "list")[1]
    assert "quarantined" in ready("slot", "show", SLOT)[1]
    events = [row["event"] for row in json.loads(ready("slot", "history", SLOT, "-f", "json")[1])]
    assert events[:2] == ["enrolled_free", "custody_taken"]
    assert "custody_taken" in ready("slot", "history", SLOT)[1]
    assert json.loads(ready("slot", "list", "--state", "held", "-f", "json")[1]) == []


def test_a_serial_cannot_move_the_cursor(ready: Cli, conf: Path) -> None:
    store = enrolled(conf)
    record = store.slots()[0]
    evil = codec.decode(
        type(IDENTITY), {**codec.plain(IDENTITY), "serial": "\x1b[2J\n../x"}, "identity"
    )
    store.amend(record, SlotChanges(identity=evil))
    for words in (
        (
            "slot",
            "list",
        ),
        ("slot", "show", SLOT),
        ("slot", "list", "-f", "json"),
    ):
        out = ready(*words)[1]
        assert "\x1b" not in out
        assert "../x" in out


def test_a_decision_is_recorded_although_placement_is_away(ready: Cli, conf: Path) -> None:
    store = enrolled(conf)
    code, _out, err = ready("slot", "hold", SLOT, "--reason", "smoke in the rack")
    assert code == 0
    assert err.count("\n") == 1
    assert "no-such-cloud" in err
    record = store.slots()[0]
    assert (record.state, record.reason) == (State.HELD, "smoke in the rack")
    refused(
        ready("slot", "hold", SLOT, "--reason", "again"), 4, "is held already (smoke in the rack)"
    )
    refused(ready("slot", "release", SLOT, "--reason", " "), 4, "reason")
    assert ready("slot", "release", SLOT, "--reason", "looked at")[0] == 0
    assert store.slots()[0].state is State.RELEASED
    assert ready("slot", "retire", SLOT, "--reason", "worn")[0] == 0
    assert store.slots()[0].state is State.RETIRED
    decided = [row.by for row in store.history(SLOT) if row.by is not None]
    assert decided == [Initiator(users.who())] * 3, "who each of them was"
    refused(ready("slot", "retire", SLOT, "--reason", "again"), 4, "is retired already (worn)")
    refused(ready("slot", "hold", SLOT, "--reason", "again"), 4, "is retired already (worn)")


def test_a_slot_in_use_is_not_held_and_the_answer_says_why(ready: Cli, conf: Path) -> None:
    store = Store.open(f"sqlite:///{conf.parent}/record.db")
    record = store.enrol(
        SLOT, provider="p", resource_class="C", in_use=True, profile="x", policy="purge"
    )
    server = "22222222-2222-4222-8222-222222222222"
    record = store.amend(record, SlotChanges(consumer=server))
    for verb in ("hold", "retire"):
        refused(ready("slot", verb, SLOT, "--reason", "x"), 4, f"server {server} has the drive")
    assert store.slots()[0] == record
    store.transition(record, Event.RELEASE_SEEN, reason="gone")
    record = store.transition(store.slots()[0], Event.CUSTODY_TAKEN)
    changes = SlotChanges(order_id="o", nonce="n", identity=IDENTITY)
    store.transition(record, Event.ORDERED, changes=changes)
    refused(
        ready("slot", "retire", SLOT, "--reason", "x"),
        4,
        "it is erasing: hold it first, then retire it",
    )
    assert ready("slot", "hold", SLOT, "--reason", "x")[0] == 0


def test_a_drive_exchanged_on_purpose_is_accepted_by_a_person(ready: Cli, conf: Path) -> None:
    store = enrolled(conf)
    words = ("slot", "release", SLOT, "--reason", "exchanged", "--new-drive")
    refused(ready(*words), 4, "held")
    assert store.slots()[0].identity == IDENTITY
    tenant = SlotChanges(consumer="a-tenant-of-the-old-drive")
    held = store.transition(
        store.slots()[0], Event.HELD, reason="the drive changed", changes=tenant
    )
    refused(ready("slot", "release", SLOT, "--reason", " ", "--new-drive"), 4, "reason")
    assert store.slots()[0] == held
    assert ready(*words)[0] == 0
    record = store.slots()[0]
    assert (record.state, record.identity) == (State.RELEASED, None)
    # A certificate of the new drive must not say that the old one's tenant had it.
    assert record.consumer is None
    assert "exchanged (another drive" in store.history(SLOT)[-1].reason


def test_a_new_drive_is_not_taken_from_a_word_of_before_the_exchange(
    ready: Cli, conf: Path
) -> None:
    store = enrolled(conf)
    held = store.transition(store.slots()[0], Event.HELD, reason="worn")
    store.register_host("cmp1", PrivateKey.generate().public, "incarnation-00001")

    def named(sequence: int, identity: ControllerIdentity) -> None:
        seen = (SeenDrive(SLOT.address, "nvme", identity),)
        store.host_seen(
            "cmp1", sequence, Hello("cmp1", "incarnation-00001", sequence, "1", seen, ())
        )

    words = ("slot", "release", SLOT, "--reason", "exchanged", "--new-drive")
    named(1, IDENTITY)
    refused(ready(*words), 4, "wait for the host")
    assert store.slots()[0] == held
    named(2, replace(IDENTITY, serial="NEW"))
    assert ready(*words)[0] == 0


def test_a_cloud_that_is_not_there_is_one_line(ready: Cli, tmp_path: Path) -> None:
    assert ready("profile", "approve", save(tmp_path / "p", PROFILE), "--by", "Ada")[0] == 0
    answer = ready(
        "slot", "enrol", "--host", "cmp1", "--pci", "0000:01:00.0", "--profile", PROFILE.name
    )
    refused(answer, 2, "no-such-cloud")
    assert json.loads(ready("slot", "list", "-f", "json")[1]) == []


def test_a_policy_file_must_be_the_policy_named(ready: Cli, conf: Path, tmp_path: Path) -> None:
    enrolled(conf)
    file = save(tmp_path / "policy.json", Policy(name="mild"))
    conf.write_text(conf.read_text() + f"[erase]\npolicy_file = {file}\n")
    answer = ready("slot", "reconcile")
    refused(answer, 2, "mild")
    file.write_text("{")
    refused(ready("slot", "reconcile"), 2, str(file))


HOSTILE = "\x1b[2J\x9b2J\n2026-11-20 INFO all is well\u202e"


def test_a_log_line_is_one_line_without_controls(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    set_up_logging("INFO")
    logging.getLogger("x").error("held: %s", HOSTILE + "y" * 9999)
    try:
        raise ValueError
    except ValueError:
        logging.getLogger("x").exception("ours")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].isprintable()
    assert len(lines[0]) <= 4000
    assert lines[1].endswith("ours")
    assert lines[2].startswith("Traceback")


def test_a_certificate_on_a_terminal_moves_no_cursor(
    ready: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = replace(IDENTITY, serial=HOSTILE[:20])
    order = replace(ORDER, identity=identity)
    evidence = replace(evidence_of(replace(REPORT, identity=identity)), order=order)
    body = certificate.build(evidence, Issuer(), Link(), "2026-11-20T12:00:00Z")
    signed = certificate.sign(body, KEY)
    monkeypatch.setattr(certificates, "_stored", lambda *_: None)
    monkeypatch.setattr(certificates, "_signed", lambda *_: signed)
    code, out, _err = ready("certificate", "show", "0" * 64, "-f", "json")
    assert code == 0
    assert all(line.isprintable() for line in out.splitlines())
    assert certificate.read_document(out.encode(), [KEY.public], "stdout") == signed
    code, out, _err = ready("certificate", "show", "0" * 64)
    assert all(line.isprintable() for line in out.splitlines())


class TestOffline:
    """``certificate verify`` and ``ledger`` with the public key alone."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> list[Path]:
        first = issue(Link())
        second = issue(first.link)
        paths = []
        for signed in (first, second):
            paths.append(tmp_path / f"{signed.digest}.json")
            paths[-1].write_bytes(certificate.document(signed))
        return paths

    @pytest.fixture
    def key(self, tmp_path: Path) -> Path:
        return save(tmp_path / "controller.jwk", KEY.public.jwk())

    @pytest.fixture
    def offline(self, capsys: pytest.CaptureFixture[str]) -> Cli:
        def call(*words: object) -> tuple[int, str, str]:
            code = cli.main([*map(str, words)])
            out = capsys.readouterr()
            return code, out.out, out.err

        return call

    def test_good_files(self, offline: Cli, files: list[Path], key: Path) -> None:
        code, out, _err = offline("certificate", "verify", *files, "--key", key, "-f", "json")
        found = json.loads(out)
        assert code == 0
        assert [one["valid"] for one in found] == [True, True]
        assert found[1]["previous"] == found[0]["digest"]
        assert REPORT.identity is not None
        assert found[0]["serial"] == REPORT.identity.serial
        assert offline("certificate", "verify", files[0], "--key", key)[0] == 0
        code, out, _err = offline("ledger", "verify", *files, "--key", key, "-f", "json")
        assert (code, json.loads(out)["intact"]) == (0, True)

    def test_a_directory_and_a_ledger_file(
        self, offline: Cli, files: list[Path], key: Path, tmp_path: Path
    ) -> None:
        exported = tmp_path / "exported"
        exported.mkdir()
        for file in files:
            file.rename(exported / file.name)
        last = json.loads(offline("ledger", "verify", exported, "--key", key, "-f", "json")[1])[
            "last"
        ]
        assert offline("ledger", "verify", exported, "--key", key, "--end", last)[0] == 0
        code, out, _err = offline("ledger", "verify", exported, "--key", key, "--end", "0" * 64)
        assert (code, "it is not there" in out) == (7, True)
        tokens = [json.loads(p.read_bytes())["jws"] for p in exported.iterdir()]
        lines = sorted(map(certificate.said_line, tokens), key=lambda t: b'"position":2' in t)
        whole = tmp_path / "all.jsonl"
        whole.write_bytes(b"".join(lines))
        assert offline("ledger", "verify", whole, "--key", key)[0] == 0
        whole.write_bytes(b"".join(reversed(lines)))
        code, out, _err = offline("ledger", "verify", whole, "--key", key)
        assert (code, "line 2: out of order" in out) == (7, True)
        for file in exported.iterdir():
            file.unlink()
        code, out, _err = offline("ledger", "verify", exported, whole, "--key", key, "-f", "json")
        assert (code, json.loads(out)["count"]) == (7, 2), "an empty directory hides no other"
        assert "found none" in json.loads(out)["findings"][0]["problem"]

    def test_a_tampered_file(self, offline: Cli, files: list[Path], key: Path) -> None:
        files[0].write_text(files[0].read_text().replace(IDENTITY.serial, "PHLJ9999999"))
        code, out, _err = offline("certificate", "verify", *files, "--key", key, "-f", "json")
        assert code == 7
        assert [one["valid"] for one in json.loads(out)] == [False, True]
        code, out, _err = offline("ledger", "verify", *files, "--key", key)
        assert code == 7
        assert "altered" in out
        assert "missing link" in out

    def test_another_key(self, offline: Cli, files: list[Path], tmp_path: Path) -> None:
        other = save(tmp_path / "o.jwk", PrivateKey.generate().public.jwk())
        assert offline("certificate", "verify", files[0], "--key", other)[0] == 7
        both = ("--key", other, "--key", save(tmp_path / "k.jwk", KEY.public.jwk()))
        assert offline("certificate", "verify", files[0], *both)[0] == 0

    def test_a_file_that_cannot_be_read_hides_no_other(
        self, offline: Cli, files: list[Path], key: Path
    ) -> None:
        gone = files[0].with_name("gone.json")
        gone.symlink_to("nowhere")
        code, out, _err = offline("ledger", "verify", files[0].parent, "--key", key, "-f", "json")
        found = json.loads(out)
        assert (code, found["count"]) == (7, 2)
        assert [one["name"] for one in found["findings"]] == [str(gone)]

    def test_files_that_are_none(self, offline: Cli, key: Path, tmp_path: Path) -> None:
        junk = tmp_path / "junk"
        junk.write_bytes(b"\xff\0")
        code, out, _err = offline("certificate", "verify", junk, "--key", key)
        assert code == 7
        assert "Traceback" not in out
        refused(offline("certificate", "verify", junk, "--key", junk), 2, str(junk))
        code, out, _err = offline("certificate", "verify", tmp_path / "gone", "--key", key)
        assert code == 7
        assert "gone" in out


def test_stamps_are_not_called_well_where_none_was_looked_for(ready: Cli, tmp_path: Path) -> None:
    """They lie beside heads, and no head was named."""
    words = ("ledger", "verify", "--tsa-ca", tmp_path / "roots.pem")
    refused(ready(*words), 2, "expected --heads with --tsa-ca")


def test_what_a_policy_means_for_a_model(ready: Cli, tmp_path: Path) -> None:
    quirk = Quirk("SLOW*", "hangs at 99 %", skip=(Method.SANITIZE_BLOCK,))
    file = save(tmp_path / "policy.json", Policy(name="mine", quirks=(quirk,)))
    assert ready("policy", "approve", file, "--by", "Ada")[0] == 0
    code, out, _err = ready("policy", "show", "mine", "--model", "SLOW 1", "-f", "json")
    found = json.loads(out)
    assert (code, found["purge_methods"], found["skipped"]) == (
        0,
        ["sanitize-crypto"],
        ["sanitize-block"],
    )
    code, out, _err = ready("policy", "show", "mine", "--model", "OTHER", "--vendor-id", "0x144d")
    assert (code, "hangs" in out) == (0, False)
    assert out.index("sanitize-crypto") < out.index("sanitize-block")
    assert "hangs at 99 %" in ready("policy", "show", "mine", "--model", "SLOW 2")[1]
    refused(ready("policy", "show", "none", "--model", "X"), 2, "'none'")
    file.write_text('{"quirks": [{"model": "X*Y", "reason": "r", "skip": ["sanitize-block"]}]}')
    refused(ready("policy", "approve", file, "--by", "Ada"), 2, "at most one * at its end")


def test_the_certificates_of_a_server(ready: Cli, conf: Path, tmp_path: Path) -> None:
    server = "22222222-2222-4222-8222-222222222222"
    code, out, _err = ready("certificate", "for-server", server.upper(), "-f", "json")
    found = json.loads(out)
    assert (code, found["server"], found["complete"], found["drives"]) == (0, server, False, [])
    code, out, _err = ready("certificate", "for-server", server)
    assert "between two looks" in out
    refused(ready("certificate", "for-server", "x"), 2, "expected a server's uuid")


def test_certificates_of_a_former_key_hold(ready: Cli, conf: Path, tmp_path: Path) -> None:
    former = save(tmp_path / "former.jwk", json.loads(ready("key", "show")[1]))
    old = PrivateKey.from_pem((tmp_path / "controller.pem").read_bytes(), "old")
    link, server = Link(), "22222222-2222-4222-8222-222222222222"
    store = enrolled(conf)
    for key in (old, None):
        if key is None:
            (tmp_path / "controller.pem").rename(tmp_path / "former.pem")
            assert ready("key", "create")[0] == 0
            key = PrivateKey.from_pem((tmp_path / "controller.pem").read_bytes(), "new")
        link = certified(store, link, key, server)
    assert ready("ledger", "verify")[0] == 7, "nobody said that the old key was ours"
    assert ready("certificate", "for-server", server)[0] == 7
    code, out, err = ready("certificate", "export", "-f", "json")
    assert (code, len(json.loads(out))) == (7, 2), "the other one is written all the same"
    assert f"not exported: certificate {store.certificates()[0].digest}" in err
    with conf.open("a") as handle:
        handle.write(f"[evidence]\nformer_keys = {former}\n")
    code, out, _err = ready("ledger", "verify", "-f", "json")
    assert (code, json.loads(out)["count"]) == (0, 2)
    assert ready("certificate", "export")[0] == 0
    assert ready("certificate", "for-server", server)[0] == 0
    former.write_text("{}")
    refused(ready("ledger", "verify"), 2, str(former))


def certified(store: Store, previous: Link, key: PrivateKey, server: str) -> Link:
    """One more certificate in the record."""
    signed = issue(previous, key=key)
    record = store.slot(SLOT)
    assert record is not None
    changes = SlotChanges(order_id=signed.digest[:36], nonce=signed.digest[:32])
    record = store.transition(record, Event.ORDERED, changes=changes)
    new = NewCertificate(signed.token, signed.digest, previous.digest, server=server)
    record = store.transition(record, Event.CERTIFIED, certificate=new)
    store.transition(record, Event.RECALLED, reason="again")
    return signed.link


@pytest.mark.parametrize("option", ["property_numbers", "chassis_numbers"])
def test_numbers_are_read_strictly(conf: Path, tmp_path: Path, option: str) -> None:
    file = tmp_path / "numbers.json"
    conf.write_text(conf.read_text() + f"[evidence]\n{option} = {file}\n")
    for text in ("[]", '{"S1": 5}', '{"S1": ""}', "{", '{"S1": "a", "S1": "b"}'):
        file.write_text(text)
        with pytest.raises(BadInputError, match=r"numbers\.json"):
            getattr(Assembly([conf]), option)
    file.write_text('{"S1": "SSD-1"}')
    assert getattr(Assembly([conf]), option) == {"S1": "SSD-1"}


def test_attestations_are_read_strictly(conf: Path, tmp_path: Path) -> None:
    file = tmp_path / "words.json"
    conf.write_text(conf.read_text() + f"[evidence]\nattestations = {file}\n")
    said = {"model": "INTEL*", "firmware": "VDV*", "statement": "AES-256"}
    for wrong in ([], {}, {"attestations": [{}]}, {"attestations": [said | {"statement": " "}]}):
        file.write_text(json.dumps(wrong))
        with pytest.raises(BadInputError, match=r"words\.json"):
            _ = Assembly([conf]).attestations
    file.write_text(json.dumps({"attestations": [said, said | {"model": "*"}]}))
    known = Assembly([conf]).attestations
    assert attestations.statement(known, "INTEL SSDPE", "VDV10131") == "AES-256"
    assert attestations.statement(known, "SAMSUNG", "VDV10131") == "AES-256"
    assert attestations.statement(known, "SAMSUNG", "GDC5902Q") == ""


def test_capacity_is_shown_in_each_format(ready: Cli, conf: Path) -> None:
    enrolled(conf).close()
    code, out, _err = ready("capacity", "show")
    assert code == 0
    assert "i1-180" in out
    assert "No drive is free" in out
    assert max(map(len, out.splitlines())) <= 132
    code, out, _err = ready("capacity", "show", "i1-90", "-f", "json")
    everywhere, host = json.loads(out)
    assert (everywhere["host"], host["host"]) == ("", SLOT.host)
    assert (host["flavor"], host["drives"], host["sellable"], host["coming"]) == ("i1-90", 2, 0, 1)
    assert (host["returns"], host["next_at"]) == ([], None)
    code, out, _err = ready("capacity", "show", "--host", SLOT.host, "-f", "csv", "-c", "flavor")
    assert out.split() == ['"flavor"', '"i1-45"', '"i1-90"', '"i1-180"']
    refused(ready("capacity", "show", "i2"), 2, "expected one of i1-45, i1-90, i1-180")
    refused(ready("capacity", "show", "--host", "other"), 2, "expected a host with enrolled slots")


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_command_calls_people_for_is_counted(
    ready: Cli, conf: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Its looks write a lasting alarm on the slot's record: the service calls nobody for it then,
    so it would be in no list and ring nowhere."""
    enrolled(conf).close()

    def look(*_plane: object, **_words: object) -> tuple[()]:
        alarm(SlotInState(SLOT, State.IN_USE), AlarmCode.STRANGER_RUNS, "domain x runs")
        if fails:
            raise UnavailableError("Placement does not answer")
        return ()

    monkeypatch.setattr(decisions, "reconcile", look)
    assert ready("slot", "reconcile", "--slot", SLOT)[0] == (6 if fails else 0)
    (line,) = json.loads(ready("alarm", "list", "-f", "json")[1])
    assert (line["code"], line["subject"], line["count"]) == ("stranger-runs", str(SLOT), 1)
    with closing(Store.open(f"sqlite:///{conf.parent}/record.db")) as store:
        assert store.alarm_totals() == {"stranger-runs": 1}
    alarm(SLOT, AlarmCode.STRANGER_RUNS, "after the command nobody listens")
    assert json.loads(ready("alarm", "list", "-f", "json")[1]) == [line]
