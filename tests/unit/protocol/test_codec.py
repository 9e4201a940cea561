"""The codec refuses whatever is not exactly what the dataclass says."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eraser.errors import BadInputError
from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot, pci_address
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Method, Policy
from eraser.protocol.profile import FeatureRule, NamespaceLayout, Profile
from eraser.protocol.report import CommandRecord

IDENTITY = ControllerIdentity(0x144D, 0xA824, 0x144D, 0xA801, "S1", "Model", "nqn.2014-08.x:1")
PROFILE = Profile("p", 0x144D, 0xA824, "Model", ("FW1",), (NamespaceLayout(1, 100, 4096, 0),))
ORDER = EraseOrder(
    order_id="0" * 32,
    slot=Slot("compute-1", "0000:01:00.0"),
    identity=IDENTITY,
    profile=PROFILE,
    policy=Policy(),
    generation=1,
    nonce="1" * 32,
    incarnation="2" * 32,
    seconds_allowed=60,
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_an_order_comes_back_as_it_went() -> None:
    assert codec.load(EraseOrder, codec.canonical(ORDER), "order") == ORDER


@pytest.mark.parametrize(
    ("said", "form"),
    [
        ("0000:01:00.0", "0000:01:00.0"),
        ("00000000:AB:1f.7", "0000:ab:1f.7"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
        ("E2C1:00:00.0", "e2c1:00:00.0"),
    ],
)
def test_a_pci_address_has_one_form(said: str, form: str) -> None:
    """Another spelling of a slot would be another slot, with a lock and an entry of its own."""
    assert pci_address(said) == form
    assert Slot.parse(f"h/{said}") == Slot("h", form)


def test_canonical_form_has_sorted_keys_and_no_spaces() -> None:
    assert codec.canonical({"b": (1, Method.SANITIZE_BLOCK), "a": None}) == (
        b'{"a":null,"b":[1,"sanitize-block"]}'
    )


def _changed(path: list[str], value: object) -> bytes:
    document = json.loads(codec.canonical(ORDER))
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["generation"], "1", "order.generation: expected a number, found '1'"),
        (["generation"], True, "expected a number, found True"),
        (["generation"], 0, "generation of at least 1"),
        (["slot", "address"], "01:00.0", "expected a PCI address"),
        (["slot", "address"], "0000:01:00.A", "expected a PCI address"),
        (["slot", "host"], "a b", "expected a host name"),
        (["identity", "vendor_id"], 70000, "16 bits"),
        (["policy", "purge_methods"], ["shred"], "expected one of sanitize-crypto"),
        (["policy", "purge_methods"], ["format-crypto"], "only sanitize methods"),
        (["policy", "extra"], 1, "expected no member 'extra'"),
        (["policy", "limits"], {"stuck": -1}, "0 < stuck"),
        (["policy", "verification"], {"confidence": 1.5}, "0.5 <= confidence"),
        (["profile", "namespaces"], [], "at least one namespace"),
        (["nonce"], "../../etc/passwd-and-more", "letters and digits in nonce"),
        (["identity", "serial"], "\ud800", "text that UTF-8 can hold"),
        (["seconds_allowed"], 0, "at least one second"),
    ],
)
def test_a_wrong_member_is_named(path: list[str], value: object, words: str) -> None:
    with pytest.raises(BadInputError, match=r".") as caught:
        codec.load(EraseOrder, _changed(path, value), "order")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_member_is_named() -> None:
    document = json.loads(codec.canonical(ORDER))
    del document["nonce"]
    with pytest.raises(BadInputError, match="expected a member 'nonce'"):
        codec.load(EraseOrder, json.dumps(document), "order")


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"NaN", b'{"a":1,"a":2}', b"\xff", b"[" * 100_000, b" " * (5 << 20)]
)
def test_what_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(BadInputError):
        codec.load(Policy, raw, "policy")


@settings(deadline=None)
@given(JSON_VALUES)
def test_any_json_is_an_order_or_refused(value: object) -> None:
    with pytest.raises(BadInputError):
        codec.decode(EraseOrder, value, "order")


@settings(deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_are_a_policy_or_refused(raw: bytes) -> None:
    try:
        codec.load(Policy, raw, "policy")
    except BadInputError:
        return
    assert json.loads(raw) == {} or isinstance(json.loads(raw), dict)


@settings(deadline=None)
@given(st.sampled_from([f.name for f in dataclasses.fields(EraseOrder)]), JSON_VALUES)
def test_any_member_replaced_is_decoded_or_refused(name: str, value: object) -> None:
    document = json.loads(codec.canonical(ORDER))
    document[name] = value
    try:
        found = codec.decode(EraseOrder, document, "order")
    except BadInputError:
        return
    # What was accepted means what was said, defaults filled in.
    assert codec.decode(EraseOrder, codec.plain(found), "order") == found


@pytest.mark.parametrize("number", ["9" * 60, "-" + "9" * 400])
@pytest.mark.parametrize("member", ["seconds_allowed", "confidence"])
def test_a_number_beyond_arithmetic_is_refused_in_one_line(member: str, number: str) -> None:
    plain = codec.plain(ORDER)
    target = plain if member in plain else plain["policy"]["verification"]
    target[member] = int(number)
    with pytest.raises(BadInputError, match=member):
        codec.load(type(ORDER), json.dumps(plain), "order")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("nsid", 0),
        ("nsid", 0xFFFFFFFF),
        ("blocks", 0),
        ("block_bytes", 0),
        ("block_bytes", 1000),
        ("lba_format", 64),
        ("protection", 256),
        ("capacity", 1 << 64),
        ("sharing", -1),
    ],
)
def test_no_profile_has_a_namespace_that_no_command_can_make(member: str, value: int) -> None:
    """A host would meet it in the middle of a case, which had no end then."""
    plain = codec.plain(PROFILE)
    assert codec.decode(Profile, plain, "profile") == PROFILE
    plain["namespaces"][0][member] = value
    with pytest.raises(BadInputError, match=f"expected .*{member}"):
        codec.decode(Profile, plain, "profile")


def test_a_profile_names_each_namespace_once() -> None:
    plain = codec.plain(PROFILE)
    plain["namespaces"] *= 2
    with pytest.raises(BadInputError, match="each namespace once"):
        codec.decode(Profile, plain, "profile")


@pytest.mark.parametrize("member", ["fid", "value", "nsid", "select"])
@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_no_profile_has_a_feature_that_no_command_can_name(member: str, value: int) -> None:
    plain = codec.plain(FeatureRule(2, "power management", 0)) | {member: value}
    with pytest.raises(BadInputError, match=f"expected .*{member}"):
        codec.decode(FeatureRule, plain, "feature")


def test_a_part_of_a_document_is_checked_and_the_rest_of_it_is_not() -> None:
    @dataclasses.dataclass(frozen=True)
    class Head:
        order_id: str
        generation: int

    raw = codec.canonical(ORDER)
    assert codec.load_part(Head, raw, "order") == Head(ORDER.order_id, ORDER.generation)
    for wrong in (b'{"order_id":"x"}', b'{"order_id":1,"generation":1}', b"[]", b"{"):
        with pytest.raises(BadInputError, match="order"):
            codec.load_part(Head, wrong, "order")


def test_a_late_member_that_is_not_used_is_not_sent() -> None:
    """A host of the release before it takes the order, as long as its profile has no such data."""
    rule = FeatureRule(0x7E, "controller metadata", 0)
    assert "data" not in codec.plain(rule)
    text = bytes.fromhex("0100010001").ljust(4096, b"\0")
    used = dataclasses.replace(rule, digest=hashlib.sha256(text).hexdigest(), data="0100010001")
    assert codec.plain(used)["data"] == "0100010001"
    for each in (rule, used):
        assert codec.decode(FeatureRule, codec.plain(each), "rule") == each
    assert "stuck" not in codec.plain(ORDER)
    slow = dataclasses.replace(ORDER, stuck=1800.0)
    assert codec.load(EraseOrder, codec.canonical(slow), "order") == slow
    record = CommandRecord(("nvme",), 0x84, 0, 2, 0, 0, "", "", 0.0)
    assert not {"cdw11", "cdw12"} & codec.plain(record).keys(), "a control plane of before takes it"
    assert codec.plain(dataclasses.replace(record, cdw11=5))["cdw11"] == 5


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-le", "utf-8-sig"])
def test_text_is_utf_8(encoding: str) -> None:
    """Two readers of the same signed bytes must not differ in whether they are JSON."""
    with pytest.raises(BadInputError, match="expected JSON"):
        codec.parse('{"a":1}'.encode(encoding), "file")
    with pytest.raises(BadInputError, match="expected JSON"):
        codec.parse(b'"\xed\xa0\x80"', "half a surrogate pair")
