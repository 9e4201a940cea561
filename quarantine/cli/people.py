"""Verbs for what only people bring: hosts' keys, profiles, policies, the controller's own key."""

from __future__ import annotations

import argparse
import json
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from eraser.protocol import codec
from eraser.protocol.applied import apply
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.policy import Policy
from eraser.protocol.profile import Profile
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine.cli.command import Verb
from quarantine.cli.output import age, show_fields, show_json, show_table, warn
from quarantine.doors import utc_now
from quarantine.errors import BadInputError
from quarantine.evidence.keys import keyring, rotation
from quarantine.evidence.sheet import files
from quarantine.inputfile import read_file
from quarantine.record.facts import Approved, HostRecord
from quarantine.record.states import FREE_TO_SCHEDULE
from quarantine.service.container import Assembly
from quarantine.service.issue.registrar import iso

T = TypeVar("T")


@dataclass(frozen=True)
class HostCard:
    """``host.json``, as ``nvme-eraser keygen`` writes it on a host."""

    host: str
    incarnation: str
    key: dict[str, str]


def _load(cls: type[T], path: Path, what: str) -> T:
    try:
        return codec.load(cls, read_file(path, what), str(path))
    except BadWireError as error:
        raise BadInputError(str(error)) from error


def _host(record: HostRecord) -> dict[str, object]:
    return {
        "host": record.name,
        "incarnation": record.incarnation,
        "key": record.key.thumbprint,
        "registered_at": record.registered_at,
        "heard_at": record.heard_at,
        "version": record.hello.version if record.hello else None,
        "drives": record.hello.drives if record.hello else (),
        "cases": record.hello.cases if record.hello else (),
    }


def _host_register(assembly: Assembly, args: argparse.Namespace) -> int:
    card = _load(HostCard, args.file, "host card")
    try:
        key = PublicKey.from_jwk(card.key, str(args.file))
    except BadWireError as error:
        raise BadInputError(str(error)) from error
    if not 16 <= len(card.incarnation) <= 64 or not card.incarnation.replace("-", "").isalnum():
        raise BadInputError(
            f"{args.file}: expected an incarnation of 16 to 64 letters and digits, "
            f"found {card.incarnation[:70]!r}"
        )
    record = assembly.store.register_host(card.host, key, card.incarnation, replace=args.replace)
    return _host_print(record, args.format)


def _host_register_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the host's host.json")
    parser.add_argument(
        "--replace",
        action="store_true",
        help="the host was installed anew: its older orders and reports are void",
    )


def _host_print(record: HostRecord, form: str) -> int:
    members = _host(record)
    if form == "json":
        show_json(members)
        return 0
    drives = members.pop("drives")
    show_fields(members.items())
    if isinstance(drives, tuple) and drives:
        head = ("ADDRESS", "DRIVER", "MODEL", "SERIAL")
        show_table(
            head,
            (
                (d.address, d.driver, d.identity.model, d.identity.serial)
                if d.identity
                else (d.address, d.driver, "", "")
                for d in drives
            ),
        )
    return 0


def _host_list(assembly: Assembly, args: argparse.Namespace) -> int:
    records = assembly.store.hosts()
    if args.format == "json":
        show_json([_host(record) for record in records])
        return 0
    head = ("HOST", "INCARNATION", "HEARD", "VERSION", "DRIVES", "OPEN CASES")
    show_table(
        head,
        (
            (
                record.name,
                record.incarnation,
                age(record.heard_at) or "never",
                record.hello.version if record.hello else "",
                len(record.hello.drives) if record.hello else "",
                len(record.hello.cases) if record.hello else "",
            )
            for record in records
        ),
    )
    return 0


def _host_show(assembly: Assembly, args: argparse.Namespace) -> int:
    record = assembly.store.host(args.host)
    if record is None:
        raise BadInputError(f"host {args.host}: expected a registered host, found none")
    return _host_print(record, args.format)


def _host_remove(assembly: Assembly, args: argparse.Namespace) -> int:
    if not assembly.store.remove_host(args.host):
        raise BadInputError(f"host {args.host}: expected a registered host, found none")
    offered = []
    if assembly.conf.gate.required:  # else it needs no word of its host, and stays
        offered = assembly.store.slots(host=args.host, states=FREE_TO_SCHEDULE)
    if args.format == "json":
        names = [str(record.slot) for record in offered]
        show_json({"host": args.host, "removed": True, "taken_back": names})
    for record in offered:
        warn(f"{record.slot} is on offer: taken back by the running service with its next sweep")
    return 0


def _host_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", metavar="HOST")


def _document_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def _approve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="JSON, as proposed or written")
    parser.add_argument("--by", required=True, metavar="PERSON", help="who approves it")


def _profile_approve(assembly: Assembly, args: argparse.Namespace) -> int:
    profile = _load(Profile, args.file, "profile")
    return _document(assembly.store.put_profile(profile, args.by), args.format)


def _profile_list(assembly: Assembly, args: argparse.Namespace) -> int:
    return _documents(assembly.store.profiles(), args.format)


def _profile_show(assembly: Assembly, args: argparse.Namespace) -> int:
    return _found(assembly.store.profile(args.name), "profile", args)


def _policy_approve(assembly: Assembly, args: argparse.Namespace) -> int:
    policy = _load(Policy, args.file, "policy")
    return _document(assembly.store.put_policy(policy, args.by), args.format)


def _policy_list(assembly: Assembly, args: argparse.Namespace) -> int:
    return _documents(assembly.store.policies(), args.format)


def _policy_show(assembly: Assembly, args: argparse.Namespace) -> int:
    approved = assembly.store.policy(args.name)
    if args.model is None:
        return _found(approved, "policy", args)
    policy = approved.content if approved else assembly.dispatcher.policy(args.name)
    if policy is None:
        raise BadInputError(f"policy {args.name!r}: expected an approved one, found none")
    applied = apply(policy, args.vendor_id, args.model, args.firmware)
    if args.format == "json":
        show_json(applied)
        return 0
    show_fields(
        (
            ("purge methods", ", ".join(applied.purge_methods) or "none: such drives are held"),
            ("clear methods", ", ".join(applied.clear_methods) or "none"),
            ("skipped", ", ".join(applied.skipped) or "none"),
            *(("quirk", f"{q.model} {q.firmware}: {q.reason}") for q in applied.quirks),
            *((f"limit {name}", f"{value:g} s") for name, value in vars(applied.limits).items()),
        )
    )
    return 0


def _number(text: str) -> int:
    return int(text, 0)


def _policy_show_arguments(parser: argparse.ArgumentParser) -> None:
    _document_argument(parser)
    parser.add_argument(
        "--model", metavar="MODEL", help="show what it means for drives of this model"
    )
    parser.add_argument("--firmware", default="", metavar="REVISION", help="with --model")
    parser.add_argument(
        "--vendor-id", type=_number, default=0, metavar="ID", help="with --model: such as 0x144d"
    )


def _found(document: Approved[T] | None, kind: str, args: argparse.Namespace) -> int:
    if document is None:
        raise BadInputError(f"{kind} {args.name!r}: expected an approved one, found none")
    return _document(document, args.format)


def _document(document: Approved[T], form: str) -> int:
    if form == "json":
        show_json(document)
        return 0
    members = {name: value for name, value in vars(document).items() if name != "content"}
    show_fields(members.items())
    print(json.dumps(codec.plain(document.content), indent=2, sort_keys=True))
    return 0


def _documents(documents: list[Approved[T]], form: str) -> int:
    if form == "json":
        show_json(documents)
        return 0
    head = ("NAME", "VERSION", "APPROVED BY", "AT", "SHA-256")
    show_table(
        head,
        (
            (d.name, d.version, d.approved_by, d.approved_at.strftime("%Y-%m-%d %H:%M"), d.digest)
            for d in documents
        ),
    )
    return 0


def _keygen(assembly: Assembly, args: argparse.Namespace) -> int:
    path = args.output or Path(assembly.conf.evidence.signing_key)
    key = PrivateKey.generate()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        reader = _hand_over(descriptor, path)
    except FileExistsError:
        raise BadInputError(
            f"keygen: expected no file at {path}, found one; a new key voids every order that is "
            "out, and hosts must get its public half: move the old one away first"
        ) from None
    except OSError as error:
        raise BadInputError(f"keygen: expected to write {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(key.pem())
        handle.flush()
        os.fsync(handle.fileno())
    warn(f"keygen: {path} has mode 0600; the service has to run as its owner, {reader}")
    show_json(key.public.jwk())
    return 0


def _hand_over(descriptor: int, path: Path) -> str:
    """Root's new key to whom its directory belongs, the service's user; the owner's name."""
    if os.geteuid() == 0:
        there = path.parent.stat()
        os.fchown(descriptor, there.st_uid, there.st_gid)
    owner = os.fstat(descriptor).st_uid
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"uid {owner}"


def _keygen_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: [evidence]signing_key"
    )


def _rotate(assembly: Assembly, args: argparse.Namespace) -> int:
    old = assembly.key
    try:
        new = PrivateKey.from_pem(read_file(args.to, "new key"), str(args.to))
    except BadWireError as error:
        raise BadInputError(f"rotate-key: {error}; nvme-quarantine keygen makes one") from error
    if old.public == new.public:
        raise BadInputError(
            f"rotate-key: expected another key than [evidence]signing_key in {args.to}, found the "
            "same; run this before you change the option"
        )
    rotations = assembly.rotations
    if rotations and rotations[-1].new_key == new.public:
        raise BadInputError(
            "rotate-key: this rotation stands in the record already; set [evidence]signing_key to "
            f"{args.to} and restart, 'nvme-quarantine certificate export' writes its file"
        )
    known = keyring.ring(assembly.certificate_keys, rotations)
    if new.public.thumbprint in known.spans:
        raise BadInputError(
            f"rotate-key: expected a key that never signed, found a former one in {args.to}; "
            "nvme-quarantine keygen makes one"
        )
    found = assembly.store.rotate(
        old.public.thumbprint,
        new.public.thumbprint,
        lambda position, digest: rotation.make(position, digest, old, new, iso(utc_now())),
        former=assembly.former_keys,
    )
    try:
        (where,) = files.write_rotations(assembly.certificates_dir, [found.document])
    except OSError as error:
        where = assembly.certificates_dir
        warn(f"rotate-key: not written to {where}: {error.strerror}; certificate export does it")
    warn(
        f"rotate-key: it stands in the record, and in {where}; nothing is certified until "
        f"[evidence]signing_key is {args.to} and the service runs with it"
    )
    show_json(new.public.jwk())
    return 0


def _rotate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to", type=Path, metavar="FILE", required=True, help="the new key, as keygen made it"
    )


def _key_show(assembly: Assembly, args: argparse.Namespace) -> int:
    key = assembly.order_key if args.orders else assembly.key
    show_json(key.public.jwk())
    return 0


def _key_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--orders",
        action="store_true",
        help="of the key that signs orders and tickets ([erase]order_key), for hosts",
    )


VERBS = (
    Verb(
        "host register",
        "believe a host's key from now on",
        _host_register,
        _host_register_arguments,
    ),
    Verb("host list", "registered hosts", _host_list),
    Verb("host show", "one host and what it sees", _host_show, _host_argument),
    Verb("host remove", "believe a host no more", _host_remove, _host_argument),
    Verb(
        "profile approve",
        "approve what drives must look like",
        _profile_approve,
        _approve_arguments,
    ),
    Verb("profile list", "approved profiles", _profile_list),
    Verb("profile show", "one profile", _profile_show, _document_argument),
    Verb("policy approve", "approve how drives are erased", _policy_approve, _approve_arguments),
    Verb("policy list", "approved policies", _policy_list),
    Verb(
        "policy show",
        "one policy, or what it means for a model",
        _policy_show,
        _policy_show_arguments,
    ),
    Verb(
        "keygen",
        "make the controller's signing key; prints the public half (JWK) for hosts and auditors",
        _keygen,
        _keygen_arguments,
        formatted=False,
    ),
    Verb(
        "rotate-key",
        "have another key sign what comes next, said by both; before [evidence]signing_key changes",
        _rotate,
        _rotate_arguments,
        formatted=False,
    ),
    Verb(
        "public-key",
        "print the public half of the signing key (JWK)",
        _key_show,
        _key_arguments,
        formatted=False,
    ),
)
