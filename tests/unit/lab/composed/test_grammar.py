"""Descriptions: composed by a seed, printed, written as JSON and read back, refused where wrong."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.nvme.composed import corpus
from tests.lab.nvme.composed.__main__ import main
from tests.lab.nvme.composed.build import PREFIX, preset_of
from tests.lab.nvme.composed.compose import compose
from tests.lab.nvme.composed.description import (
    Abilities,
    Buffer,
    Description,
    Layout,
    Lie,
    description,
)
from tests.lab.nvme.composed.kept import SOURCES, Kept, What
from tests.lab.nvme.composed.oddities import ODDITIES, Odd
from tests.lab.nvme.composed.tables import tables
from tests.lab.nvme.composed.tally import Tally
from tests.lab.nvme.composed.triggers import AFTER, AND, OR, Trigger
from tests.lab.nvme.composed.words import WORDS
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.nature import Method
from tests.lab.nvme.presetkind import Expected
from tests.lab.nvme.presets import preset

THOUSAND = [compose(seed) for seed in range(1, 1001)]
SEED_7_OF_FORMAT = Lie(
    Kept(What.STRIPE, 7, 65536),
    (Method.SANITIZE_CRYPTO,),
    Trigger(AND, parts=(Trigger("reset", "function"), Trigger("wrote", "anywhere"))),
)


def test_a_thousand_seeds_are_a_thousand_valid_drives() -> None:
    for drive in THOUSAND:
        drive.check()
        assert preset_of(drive).name == drive.name.replace("seed ", PREFIX)
    assert len({json.dumps(drive.to_json()) for drive in THOUSAND}) == 1000


def test_a_seed_is_the_same_drive_for_ever() -> None:
    assert [compose(seed) for seed in range(1, 101)] == THOUSAND[:100]
    # Findings name seeds: a grammar that grew by drawing anew would make others of them.
    digest = hashlib.sha256(json.dumps([one.to_json() for one in THOUSAND]).encode()).hexdigest()
    assert digest[:16] == "d6a2ffeb3c7a2454"


def test_json_and_back() -> None:
    for drive in THOUSAND:
        assert description(json.loads(json.dumps(drive.to_json()))) == drive


def test_every_element_is_drawn() -> None:
    tally = Tally()
    for drive in THOUSAND:
        tally.add(drive)
    assert set(tally.kept) == {what.value for what in What}
    assert set(tally.survives) == {method.value for method in Method}
    assert set(tally.words) == {"always"} | {word.name for word in WORDS}
    assert set(tally.choices) >= {f"{w.name} {c}".rstrip() for w in WORDS for c in w.choices}
    assert set(tally.odd) == {oddity.name for oddity in ODDITIES}
    assert set(tally.depths) == {1, 2, 3}
    assert 100 < tally.honest < 300
    assert 20 < tally.undetectable < 150


def test_every_element_has_a_source_and_a_sentence() -> None:
    assert set(SOURCES) == set(What)
    for word in WORDS:
        assert word.source
        assert all(word.says.values())
    for oddity in ODDITIES:
        assert oddity.source
        assert oddity.says
    for drive in THOUSAND:
        assert "{" not in drive.sentence
        assert " 1 resets" not in drive.sentence


def test_a_sentence_says_it_plainly() -> None:
    assert SEED_7_OF_FORMAT.sentence == (
        "keeps one of 7 stripes of 64 KiB through sanitize-crypto and shows it "
        "after a function level reset and after a write"
    )
    nested = Trigger(
        AFTER, parts=(Trigger(OR, parts=(Trigger("left"), Trigger("nth", "", 3))), Trigger("taken"))
    )
    assert nested.sentence == (
        "(after an announced shutdown or from read 3 of a page on) and then after a driver took it"
    )


def test_undetectable_is_what_needs_a_part_that_is() -> None:
    late, reset = Trigger("hours", "", 1), Trigger("reset", "function")
    assert late.undetectable
    assert Trigger(AND, parts=(late, reset)).undetectable
    assert Trigger(AFTER, parts=(reset, late)).undetectable
    assert not Trigger(OR, parts=(late, reset)).undetectable
    assert Trigger(OR, parts=(late, Trigger("knock", "", 7))).undetectable
    open_lie = Lie(Kept(), (Method.FORMAT_USER,), reset)
    hidden = Lie(Kept(), (Method.FORMAT_USER,), late)
    assert Description(lies=(hidden,)).undetectable
    assert not Description(lies=(hidden, open_lie)).undetectable


def test_what_an_honest_drive_must_end_as() -> None:
    assert Description(odd=(Odd("by-die"),)).expected is Expected.ERASED
    assert Description(odd=(Odd("by-die"), Odd("stuck"))).expected is Expected.HELD
    assert Description(lies=(SEED_7_OF_FORMAT,)).expected is Expected.HELD
    assert preset_of(Description("x", odd=(Odd("stuck"),))).expected is Expected.HELD
    assert preset_of(Description("x", odd=(Odd("by-die"),))).expected is Expected.ERASED


GOOD = Description("good", lies=(SEED_7_OF_FORMAT,)).to_json()


def changed(**lie: Any) -> Any:
    """A good drive with something wrong about its lie."""
    return {**GOOD, "lies": [{**GOOD["lies"][0], **lie}]}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (changed(trigger={"word": "moon"}), "no word 'moon'; there are: order, size,"),
        (changed(trigger={"word": "reset", "choice": "hard"}), "should have one of controller,"),
        (changed(trigger={"word": "reset", "choice": "bus", "number": 0}), "a number from 1"),
        (changed(trigger={"word": "size", "choice": "page", "number": 2}), "has no number"),
        (changed(trigger={"word": "and", "parts": []}), "should join two triggers"),
        (
            changed(trigger={"word": "or", "parts": [{"word": "left"}, {"word": "left"}]}),
            "should join two triggers that differ",
        ),
        (changed(trigger={"word": "left", "parts": [{"word": "left"}]}), "joins nothing"),
        (changed(trigger={"word": "always", "number": 2}), "nothing to choose"),
        (changed(survives=[]), "survives methods of the drive"),
        (changed(kept={"what": "metadata"}), "keeps metadata should be able to"),
        (changed(kept={"what": "detached"}), "keeps detached should be able to"),
        (changed(kept={"what": "stripe", "number": 0}), "a number from 1"),
        (changed(kept={"what": "soul"}), "should be one of all, stripe"),
        ({**GOOD, "odd": [{"name": "moody"}]}, "no oddity 'moody'"),
        ({**GOOD, "odd": [{"name": "ones"}, {"name": "silent"}]}, "different groups"),
        ({**GOOD, "abilities": {"methods": []}}, "by one method at least"),
        ({**GOOD, "abilities": {"methods": ["sanitize-block"], "metadata": True}}, "have Format"),
        ({**GOOD, "soul": 1}, "has no field 'soul'"),
    ],
)
def test_a_wrong_description_is_refused_by_name(data: Any, said: str) -> None:
    with pytest.raises(DriveError, match=said):
        description(data)


def test_a_trigger_is_not_too_deep() -> None:
    trigger = Trigger("left")
    for _ in range(3):
        trigger = Trigger(AFTER, parts=(trigger, Trigger("taken")))
    with pytest.raises(DriveError, match="3 levels at most, has 4"):
        trigger.check()


def test_no_read_of_blocks_opens_a_buffer() -> None:
    able = Abilities(buffer=Buffer.CMB)
    lie = Lie(Kept(What.BUFFER), (Method.SANITIZE_BLOCK,), Trigger("size", "page"))
    with pytest.raises(DriveError, match="its trigger has to happen"):
        Description(abilities=able, lies=(lie,)).check()


def test_oddities_of_sanitize_need_one() -> None:
    able = Abilities(methods=(Method.FORMAT_USER,))
    with pytest.raises(DriveError, match="instant is about Sanitize"):
        Description(abilities=able, odd=(Odd("instant"),)).check()


# The corpus


def test_kept_descriptions_are_valid_and_differ() -> None:
    kept = corpus.read()
    assert len(kept) >= 12
    parts = [(one.abilities, one.lies, one.odd) for one in kept]
    assert all(parts.count(one) == 1 for one in parts)
    assert len({one.name for one in kept}) == len(kept)


def test_a_description_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    drive = Description("one", Abilities(layout=Layout.TWO), (SEED_7_OF_FORMAT,))
    assert corpus.add(drive, path)
    assert not corpus.add(Description("two", drive.abilities, drive.lies), path)
    assert corpus.add(Description("three"), path)
    assert corpus.read(path) == [drive, Description("three")]


# Names and the command


def test_a_preset_by_seed() -> None:
    chosen = preset("composed:17")
    assert (chosen.name, chosen.composed) == ("composed:17", compose(17))
    with pytest.raises(DriveError, match="followed by a seed, found 'x'"):
        preset("composed:x")


def test_the_command_counts_and_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "1:50"]) == 0
    head = capsys.readouterr().out.splitlines()
    assert head[0].startswith("50 drives: ")
    assert [line.split(":")[0] for line in head[1:]] == [
        "expected",
        "kept",
        "survives",
        "levels",
        "word",
        "choice",
        "odd",
    ]
    assert main(["--seeds", "7", "--show"]) == 0
    assert capsys.readouterr().out == f"7: {compose(7).sentence}\n"
    assert main(["--seeds", "7", "--json"]) == 0
    assert description(json.loads(capsys.readouterr().out)) == compose(7)
    with pytest.raises(SystemExit):
        main(["--seeds", "a:b"])


def test_the_page_has_the_tables_of_the_code() -> None:
    page = (Path(__file__).parents[4] / "docs" / "composed.md").read_text()
    for name, table in tables().items():
        assert table in page, f"{name}: python -m tests.lab.nvme.composed --tables"
