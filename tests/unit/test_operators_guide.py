"""docs/operators.md does what it says: its commands exist, its files are there when they are used.

The blocks are played on a machine of names (which files, users and units there are by then), so
that a step that comes too early is found without a guest. The recipes for other keys, for a
backup and for restoring it are executed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shlex
import shutil
import sqlite3
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

import nova_patch.__main__
import quarantine
import quarantine.cli
from eraser import VERSION
from eraser import cli as eraser_cli
from eraser.agent.hoststate import HostState, keygen
from eraser.protocol.errors import BadInputError
from eraser.protocol.order import ORDER_TYPE
from eraser.protocol.ticket import TICKET_TYPE
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PrivateKey
from qualify import VERSION as BENCH_VERSION
from qualify.cli import app as bench_cli
from quarantine.cli.app import Shell
from quarantine.errors import UnavailableError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import Link
from quarantine.evidence.keys import rotation
from quarantine.record.store import Store
from quarantine.record.words.facts import NewCertificate, SlotChanges
from quarantine.record.words.states import Event, State
from quarantine.service.assembly import Assembly
from tests.lab.guide import GUIDE, blocks
from tests.unit.quarantine.evidence.test_certificate import issue
from tests.unit.quarantine.testimony import IDENTITY, SLOT

TOP = Path(__file__).parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())
PAGES = sorted({*(TOP / "docs").glob("*.md"), TOP / "README.md"} - {TOP / "docs/release-notes.md"})

PREFIX = "/opt/nvme-quarantine"
WHEEL = f"./nvme_quarantine-{VERSION}-py3-none-any.whl"
UNITS = "/etc/systemd/system"
KEYS = "Keys of their own for orders and tickets"


@dataclass(frozen=True)
class Command:
    """One command of a block: its words, who runs it, where its output goes."""

    words: tuple[str, ...]
    user: str = "root"
    output: str = ""

    @classmethod
    def read(cls, line: str) -> Command | None:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="<>|;")
        lexer.whitespace_split = True
        words = list(lexer)
        ends = [n for n, word in enumerate(words) if word in ("|", ">", ">>", ";")]
        output = words[ends[0] + 1] if ends and words[ends[0]].startswith(">") else ""
        words = words[: ends[0]] if ends else words
        user = "root"
        if words[:2] == ["runuser", "-u"]:
            user, words = words[2], words[4:]
        return cls(tuple(words), user, output) if words else None


def reads(words: tuple[str, ...]) -> bool:
    """Has one of our programs read its arguments by its real parser; False for other programs.

    Raises ``BadInputError`` or ``SystemExit`` for what it does not take.
    """
    if words[0] == "nvme-quarantine":
        shell = Shell()
        shell.options = shell.parser.parse_args(words[1:])
        shell.parsed(shell.options.command)
        return True
    found = parser_of(words)
    if found is not None:
        found[0].parse_args(list(found[1]))
    return found is not None


def parser_of(words: tuple[str, ...]) -> tuple[argparse.ArgumentParser, tuple[str, ...]] | None:
    """The real parser of a program with one, and what it is given; None for other programs."""
    if words[1:3] == ("-m", "nova_patch"):
        return nova_patch.__main__._parser(), words[3:]
    for name, cli in (("nvme-eraser", eraser_cli), ("nvme-bench", bench_cli)):
        if words[0] == name:
            if words[1] not in cli.VERBS:
                return cli._top(), words[1:]
            return cli._verb(words[1])[1], words[2:]
    return None


def in_pages() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in blocks(page):
            for line in block:
                ours = ("nvme-quarantine ", "nvme-eraser ", "nvme-bench ", "runuser ")
                if line.startswith(ours) or "-m nova_patch" in line:
                    yield page.name, line


@pytest.mark.parametrize(("page", "line"), sorted(set(in_pages())))
def test_a_command_of_the_docs_is_one(page: str, line: str) -> None:
    command = Command.read(line)
    assert command is not None
    assert reads(command.words), f"{page}: not one of our programs"


def wheel() -> set[str]:
    """What pip puts below the environment: the programs, and the files beside the packages."""
    tools = PROJECT["tool"]["setuptools"]
    found = {f"{PREFIX}/bin/{name}" for name in PROJECT["project"]["scripts"]}
    for place, patterns in tools["data-files"].items():
        for pattern in patterns:
            found |= {f"{PREFIX}/{place}/{path.name}" for path in TOP.glob(pattern)}
    return found


def content(path: str) -> str:
    """The text of a sample, from where the wheel has it."""
    return (TOP / "docs" / "samples" / Path(path).name).read_text()


@dataclass
class Machine:
    """What there is by now. Each command needs something, and leaves something."""

    files: dict[str, str] = field(default_factory=dict)
    """Path to where its content came from."""
    users: set[str] = field(default_factory=lambda: {"root"})
    owners: dict[str, str] = field(default_factory=dict)
    reloaded: bool = False
    started: set[str] = field(default_factory=set)

    def need(self, path: str) -> str:
        assert path in self.files, f"{path} is not there yet"
        return self.files[path]

    def play(self, command: Command) -> None:
        assert command.user in self.users, f"there is no user {command.user} yet"
        program = command.words[0]
        if program.startswith("/"):
            self.need(program)
        elif program.startswith("nvme-"):
            self.need(f"/usr/local/bin/{program}")
        name = Path(program).name.replace("-", "_")
        getattr(self, f"_{name}")(command, list(command.words[1:]))
        if command.output:
            self.files[command.output] = "output"

    def _apt_get(self, _command: Command, words: list[str]) -> None:
        assert words[:2] == ["install", "--yes"]

    def _python3(self, _command: Command, words: list[str]) -> None:
        assert words[:2] == ["-m", "venv"]
        self.files |= {f"{words[2]}/bin/{name}": "venv" for name in ("pip", "python")}

    def _pip(self, _command: Command, words: list[str]) -> None:
        assert words[0] == "install"
        self.need(words[1])
        self.files |= {path: path for path in wheel()}

    def _python(self, _command: Command, words: list[str]) -> None:
        assert words[:2] == ["-m", "nova_patch"]

    def _ln(self, _command: Command, words: list[str]) -> None:
        self.files[words[2] + Path(words[1]).name] = self.need(words[1])

    def _mv(self, _command: Command, words: list[str]) -> None:
        self.files[words[1]] = self.need(words[0])
        del self.files[words[0]]

    def _printf(self, command: Command, _words: list[str]) -> None:
        self.need(command.output)

    def _install(self, _command: Command, words: list[str]) -> None:
        parser = argparse.ArgumentParser()
        for flag in ("-D", "-d"):
            parser.add_argument(flag, action="store_true")
        for option in ("-m", "-o", "-g"):
            parser.add_argument(option)
        parser.add_argument("paths", nargs="+")
        given = parser.parse_args(words)
        assert {given.o, given.g} - {None} <= self.users
        if given.d:
            self.files |= {path: "directory" for path in given.paths}
            self.owners |= {path: given.o or "root" for path in given.paths}
            return
        source, target = given.paths
        where = target + Path(source).name if target.endswith("/") else target
        parent = str(Path(where).parent)
        assert given.D or parent in self.files or parent == UNITS, f"no {parent} yet"
        self.files[where] = self.need(source)
        self.reloaded = self.reloaded and not where.startswith(UNITS)

    def _systemd_sysusers(self, _command: Command, words: list[str]) -> None:
        for line in content(self.need(f"/etc/sysusers.d/{words[0]}")).splitlines():
            if line.startswith("u "):
                self.users.add(line.split()[1])

    def _systemctl(self, _command: Command, words: list[str]) -> None:
        if words == ["daemon-reload"]:
            self.reloaded = True
            return
        for unit in words[2:] if words[1] == "--now" else words[1:]:
            if unit == "nova-compute":
                continue
            if words[0] in ("enable", "start", "restart"):
                assert self.reloaded, f"systemd does not know {unit} yet"
                self.start(content(self.need(f"{UNITS}/{unit}.service")))
                self.started.add(unit)
            if words[0] == "is-active":
                assert unit in self.started

    def start(self, unit: str) -> None:
        """What a service needs to start at all."""
        settings = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
        assert settings.get("User", "root") in self.users
        argv = shlex.split(settings["ExecStart"])
        program = Path(argv[0]).name
        self.need(argv[0])
        assert reads((program, *argv[1:]))
        for option, value in pairwise(argv):
            if option == "--config-file":
                self.need(value)
        if program == "nvme-quarantine":
            self.need("/etc/nvme-quarantine/controller.pem")
            assert self.owners["/etc/nvme-quarantine"] == settings["User"]
            assert self.owners["/var/lib/nvme-quarantine"] == settings["User"]
            self.need("record")
        elif "worker" in argv:
            self.need("/var/lib/nvme-eraser/host.json")
            self.need("/var/lib/nvme-eraser/controller.jwk")

    def _nvme_quarantine(self, command: Command, words: list[str]) -> None:
        conf = "/etc/nvme-quarantine/nvme-quarantine.conf"
        assert command.user == "nvme-quarantine", "root's files are not the service's"
        if words[:2] == ["key", "create"]:
            key = words[3] if words[2:3] == ["--output"] else "/etc/nvme-quarantine/controller.pem"
            assert key not in self.files, "never overwritten"
            self.files[key] = "key"
        elif words[:2] == ["key", "rotate"]:
            self.need("/etc/nvme-quarantine/controller.pem")
            self.need(words[3])
            self.need("record")
        elif words[:2] == ["key", "show"]:
            self.need("/etc/nvme-quarantine/controller.pem")
        elif words[:2] == ["db", "upgrade"]:
            self.files["record"] = "record"
        elif words[:2] == ["host", "register"]:
            self.need(words[2])
        self.need(conf)

    def _nvme_eraser(self, command: Command, words: list[str]) -> None:
        assert command.user == "root"
        if words[0] == "keygen":
            self.files |= {
                path: path
                for path in ("/var/lib/nvme-eraser", "/var/lib/nvme-eraser/host.json", "host.json")
            }


def follow(machine: Machine, lines: list[str]) -> None:
    """Plays a block. Fails with the line that comes too early."""
    for line in lines:
        command = Command.read(line)
        try:
            if command is not None:
                machine.play(command)
        except AssertionError as error:
            raise AssertionError(f"{line}: {error}") from error


def test_a_block_after_one_of_a_language_is_read_and_no_prose(tmp_path: Path) -> None:
    """The end of a block of another language was taken for a beginning: prose was played, and what
    came after it was not."""
    page = tmp_path / "page.md"
    page.write_text(
        "## A\n```text\nx = 1\n```\nProse.\n```\nls\n```\n"
        "## B\n1. z\n   ```\n   a \\\n   b\n   ```\n"
    )
    assert list(blocks(page)) == [["ls"], ["a b"]]
    assert list(blocks(page, "A", "text")) == [["x = 1"]]
    (accounts,) = blocks(GUIDE, "Redis in production")
    assert any("broker acl --host cmp1.example" in line for line in accounts)


def test_no_step_comes_before_what_it_needs() -> None:
    control, host = Machine({WHEEL: "wheel"}), Machine({WHEEL: "wheel"})
    for block in blocks(GUIDE, "Control plane"):
        follow(control, block)
    assert control.started == {"nvme-quarantine"}
    host.files["controller.jwk"] = control.need("controller.jwk")
    *on_the_host, on_control = blocks(GUIDE, "A compute host")
    for block in on_the_host:
        follow(host, block)
    shipped = {path.stem for path in (TOP / "docs" / "samples").glob("nvme-eraser-*.service")}
    assert host.started == shipped
    control.files["host.json"] = host.need("/var/lib/nvme-eraser/host.json")
    follow(control, on_control)
    on_control, on_the_host = blocks(GUIDE, "Another signing key")
    follow(control, on_control)
    follow(host, on_the_host)
    new_control, new_host, *changed = blocks(GUIDE, KEYS)
    for machine, block in zip(
        (control, host) * 2 + (control, control), (new_control, new_host, *changed), strict=True
    ):
        host.files |= {name: "carried" for name in control.files if name.endswith(".jwk")}
        follow(machine, block)


def test_a_step_that_comes_too_early_is_found() -> None:
    first, user, *_rest = blocks(GUIDE, "Control plane")
    with pytest.raises(AssertionError, match="sysusers is not there yet"):
        follow(Machine({WHEEL: "wheel"}), user)
    machine = Machine({WHEEL: "wheel"})
    follow(machine, first)
    with pytest.raises(AssertionError, match="no user nvme-quarantine yet"):
        follow(machine, ["runuser -u nvme-quarantine -- nvme-quarantine key create"])


def test_every_unit_is_in_the_wheel_and_starts_a_program_of_it() -> None:
    units = [path for path in wheel() if path.endswith(".service")]
    assert len(units) == len(list((TOP / "docs" / "samples").glob("*.service"))) > 0
    for unit in units:
        (start,) = (line for line in content(unit).splitlines() if line.startswith("ExecStart="))
        assert start.removeprefix("ExecStart=").split()[0] in wheel()


def test_one_version() -> None:
    assert VERSION == quarantine.VERSION == BENCH_VERSION


@pytest.mark.parametrize("main", [quarantine.cli.main, eraser_cli.main, bench_cli.main])
def test_each_program_says_its_version(main: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(main)
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.split()[1:] == [VERSION]


@dataclass
class Played:
    """A control plane in a directory: our commands run in this process, others by a shell."""

    etc: Path
    services: list[tuple[str, ...]] = field(default_factory=list)

    def ours(self, *words: str, output: Path | None = None) -> int:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            conf = str(self.etc / "nvme-quarantine.conf")
            code = quarantine.cli.main(["--config-file", conf, *words])
        if output is not None:
            output.write_text(said.getvalue())
        return code

    def line(self, line: str) -> None:
        """One line of a recipe. Every one has to succeed, as by ``sh -e``."""
        line = line.replace("/etc/nvme-quarantine", str(self.etc))
        line = line.replace("/var/lib/nvme-quarantine", str(self.etc.parent / "var"))
        line = line.replace("/var/lib/nvme-eraser", str(self.etc.parent / "host"))
        command = Command.read(line)
        assert command is not None
        if command.words[0] == "nvme-quarantine":
            where = self.etc.parent / command.output if command.output else None
            assert self.ours(*command.words[1:], output=where) == 0, line
        elif command.words[0] == "systemctl":
            self.services.append(command.words[1:])
        else:
            subprocess.run(["sh", "-ec", line], cwd=self.etc.parent, check=True)


@pytest.fixture
def control_plane(tmp_path: Path) -> Played:
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "nvme-quarantine.conf").write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {etc}/controller.pem\n"
        f"certificates_dir = {tmp_path}/certificates\n"
    )
    return Played(etc)


def believing(plane: Played) -> HostState:
    """The host, as its worker starts."""
    return HostState(plane.etc.parent / "host")


def own_keys(plane: Played) -> Assembly:
    """The control plane, as its service starts."""
    return Assembly([plane.etc / "nvme-quarantine.conf"])


@pytest.mark.parametrize("kind", ["ticket", "order"])
@pytest.mark.parametrize("own", [True, False], ids=["three", "one"])
def test_the_recipe_for_another_key_of_orders_or_tickets(
    control_plane: Played, tmp_path: Path, kind: str, own: bool
) -> None:
    """Whatever the service signs, before and after each step, a host takes; and at the end what the
    former key signs no more. Once from three keys, once from one for all."""
    plane, (new, on_host, *steps) = control_plane, blocks(GUIDE, KEYS)
    assert plane.ours("key", "create") == plane.ours("db", "upgrade") == 0
    keygen(tmp_path / "host", "cmp1.example")
    if own:
        for line in (*new, *on_host):
            plane.line(line)
    else:
        plane.ours("key", "show", output=tmp_path / "host" / "controller.jwk")

    def accepts(key: PrivateKey, kind: str) -> bool:
        typ = {"order": ORDER_TYPE, "ticket": TICKET_TYPE}[kind]
        keys = vars(believing(plane).believed)[f"{kind}s"]
        try:
            signing.verify_any(key.sign(b"{}", typ), keys, typ, kind)
        except BadInputError:
            return False
        return True

    def signs(kind: str) -> PrivateKey:
        return {"order": service.order_key, "ticket": service.ticket_key}[kind]

    def play(block: list[str]) -> None:
        for line in block:
            line = line.replace("ticket", kind) if kind == "order" else line
            plane.line(line.replace("nvme-eraser/orders.jwk", "nvme-eraser/controller.jwk"))
            assert all(accepts(signs(each), each) for each in ("order", "ticket")), line

    service = own_keys(plane)
    former = signs(kind)
    make, carry, restart, forget = steps
    play(make)
    play(carry)
    service = own_keys(plane)
    play(restart)
    assert signs(kind).public != former.public
    assert accepts(former, kind)
    believed = service.believed
    assert former.public in {"order": believed.orders, "ticket": believed.tickets}[kind]
    play(forget)
    service = own_keys(plane)
    play(carry)
    assert not accepts(former, kind)
    if own or kind == "ticket":
        other = {"order": "ticket", "ticket": "order"}[kind]
        assert not accepts(signs(other), kind)
        assert not accepts(service.key, kind)
    words = [words for words in plane.services if "nvme-quarantine" in words]
    assert words == [("restart", "nvme-quarantine")] * 2


def test_the_recipe_for_another_signing_key_keeps_older_certificates(
    control_plane: Played, tmp_path: Path
) -> None:
    pem, pem_2 = (control_plane.etc / f"controller{end}.pem" for end in ("", "-2"))
    assert control_plane.ours("key", "create") == control_plane.ours("db", "upgrade") == 0
    first = issue(Link(), key=PrivateKey.from_pem(pem.read_bytes(), "old"))
    for line in next(blocks(GUIDE, "Another signing key")):
        control_plane.line(line)
    assert [words[0] for words in control_plane.services] == ["stop", "start"]
    new = PrivateKey.from_pem(pem_2.read_bytes(), "new")
    assert json.loads((tmp_path / "controller.jwk").read_text()) == new.public.jwk()
    # The recipe's record is empty: what follows is as if the first one had stood in it.
    (turned,) = (tmp_path / "certificates").glob("*.rotation.jws")
    old = PrivateKey.from_pem(pem.read_bytes(), "old")
    turned.write_text(rotation.make(1, first.digest, old, new, "2026-11-24T03:00:00Z"))
    second = issue(first.link, key=new)
    files = [tmp_path / f"{signed.digest}.json" for signed in (first, second)]
    for file, signed in zip(files, (first, second), strict=True):
        file.write_bytes(certificate.document(signed))
    chain = ("ledger", "verify", *map(str, files))
    key = ("--key", str(tmp_path / "controller.jwk"))
    assert control_plane.ours(*chain, *key, "--rotations", str(turned)) == 0
    assert control_plane.ours(*chain, *key) == 7


@dataclass
class Kept:
    """What the recipes of backup and restore are about."""

    plane: Played
    var: Path

    @property
    def store(self) -> Store:
        return Store.open(f"sqlite:///{self.var}/record.db")

    def key(self, name: str = "controller") -> PrivateKey:
        return PrivateKey.from_pem((self.plane.etc / f"{name}.pem").read_bytes(), name)

    def grow(self, previous: Link, key: PrivateKey, former: tuple[str, ...] = ()) -> Link:
        """One more certificate in the record."""
        store, body = self.store, issue(previous).certificate
        signed = certificate.sign(replace(body, residues=(key.public.thumbprint,)), key)
        record = store.slot(SLOT) or store.enrol(
            SLOT, provider="p", resource_class="C", in_use=False, profile="x", policy="purge"
        )
        if record.identity is None:
            record = store.transition(record, Event.CUSTODY_TAKEN)
            record = store.amend(record, SlotChanges(identity=IDENTITY))
        if record.state is State.QUARANTINED:
            changes = SlotChanges(order_id=signed.digest[:36], nonce=signed.digest[:32])
            record = store.transition(record, Event.ORDERED, changes=changes)
        new = NewCertificate(signed.token, signed.digest, previous.digest, None, None, None,
                             signed.key, former)  # fmt: skip
        try:
            record = store.transition(record, Event.CERTIFIED, certificate=new)
            store.transition(record, Event.RECALLED, reason="again")
        finally:
            store.close()
        return signed.link


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    etc, var = tmp_path / "etc", tmp_path / "var"
    etc.mkdir()
    var.mkdir()
    (etc / "nvme-quarantine.conf").write_text(
        f"[database]\nurl = sqlite:///{var}/record.db\n"
        f"[evidence]\nsigning_key = {etc}/controller.pem\n"
        f"certificates_dir = {var}/certificates\nheads_dir = {var}/heads\n"
    )
    plane = Played(etc)
    assert plane.ours("key", "create") == plane.ours("db", "upgrade") == 0
    return Kept(plane, var)


def test_a_restored_record_is_the_one_of_the_backup_also_after_a_crash(kept: Kept) -> None:
    """SQLite's log, which a crash leaves, would be played into the older file: a mix of both."""
    plane, log = kept.plane, kept.var / "record.db-wal"
    backup, restore = blocks(GUIDE, "Backup and restore")
    first = kept.grow(Link(), kept.key())
    for line in (*next(blocks(GUIDE, KEYS)), *backup):
        plane.line(line)
    # Pages that are in the file by now, and others that are in the log alone.
    second = kept.grow(first, kept.key())
    reader = sqlite3.connect(kept.var / "record.db")
    reader.execute("SELECT count(*) FROM certificates").fetchall()
    third = kept.grow(second, kept.key())
    left = log.read_bytes()
    reader.close()
    log.write_bytes(left)

    for line in restore:
        plane.line(line)
    for newer in (second, third):
        assert plane.ours("ledger", "verify", "--contains", newer.digest) == 7
    with contextlib.closing(sqlite3.connect(kept.var / "record.db")) as record:
        assert record.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_the_recipes_of_backup_and_restore_lose_nothing_in_silence(
    kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plane, elsewhere = kept.plane, tmp_path / "elsewhere"
    backup, restore = blocks(GUIDE, "Backup and restore")
    first = kept.grow(Link(), kept.key())
    assert plane.ours("certificate", "export") == 0
    for line in (*next(blocks(GUIDE, KEYS)), *backup):
        plane.line(line)
    believed = own_keys(plane).believed
    # What came after the backup: a certificate, another key, one of that, and a head of it.
    second = kept.grow(first, kept.key())
    for line in next(blocks(GUIDE, "Another signing key")):
        plane.line(line)
    newer = kept.key("controller-2")
    third = kept.grow(second, newer)
    assert plane.ours("certificate", "export") == plane.ours("ledger", "head") == 0
    shutil.copytree(kept.var, elsewhere, ignore=shutil.ignore_patterns("record.db*"))
    newer_pem = (plane.etc / "controller-2.pem").read_bytes()
    shutil.rmtree(kept.var)
    shutil.rmtree(plane.etc)

    for line in restore:  # among them 'ledger': what came back is a whole chain
        plane.line(line)
    assert [words[0] for words in plane.services] == ["stop", "start"] * 3
    assert own_keys(plane).believed == believed
    assert plane.ours("ledger", "verify", "--contains", first.digest) == 0
    assert plane.ours("ledger", "verify", "--contains", third.digest) == 7
    assert plane.ours("ledger", "verify", "--heads", str(elsewhere / "heads")) == 7
    # The newer key is not the one that this record expects, until the operator says so.
    old = kept.key().public
    with pytest.raises(UnavailableError, match=old.thumbprint):
        kept.grow(first, newer)
    (plane.etc / "controller-2.pem").write_bytes(newer_pem)
    (plane.etc / "former.jwk").write_text(json.dumps(old.jwk()))
    with (plane.etc / "nvme-quarantine.conf").open("a") as conf:
        conf.write(f"[evidence]\nsigning_key = {plane.etc}/controller-2.pem\n")
        conf.write(f"former_keys = {plane.etc}/former.jwk\n")
    other = kept.grow(first, newer, (old.thumbprint,))
    assert plane.ours("ledger", "verify") == plane.ours("certificate", "export") == 0
    # Over all files an auditor sees both branches, and each certificate holds.
    for file in (elsewhere / "certificates").glob("*.json"):
        shutil.copy(file, kept.var / "certificates")
    capsys.readouterr()
    files = sorted((kept.var / "certificates").glob("*.json"))
    assert {file.stem for file in files} == {one.digest for one in (first, second, third, other)}
    assert plane.ours("certificate", "verify", *map(str, files)) == 0
    assert (
        plane.ours("ledger", "verify", str(kept.var / "certificates"), output=tmp_path / "said")
        == 7
    )
    assert "the chain forks" in (tmp_path / "said").read_text()
