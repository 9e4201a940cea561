"""Shrinking: what is not needed goes, what is needed stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.lab.nvme.composed.audit import audit
from tests.lab.nvme.composed.compose import compose
from tests.lab.nvme.composed.description import Abilities, Description, Lie
from tests.lab.nvme.composed.kept import Kept, What
from tests.lab.nvme.composed.oddities import Odd
from tests.lab.nvme.composed.shrink import shrink, smaller
from tests.lab.nvme.composed.triggers import AFTER, OR, Trigger
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.nature import Method

RESET = Trigger("reset", "function", 3)
LARGE = Description(
    "large",
    Abilities(management=True, metadata=True),
    (
        Lie(
            Kept(What.STRIPE, 7, 65536),
            (Method.SANITIZE_CRYPTO, Method.FORMAT_USER),
            Trigger(
                AFTER, parts=(Trigger(OR, parts=(RESET, Trigger("left"))), Trigger("size", "page"))
            ),
            stays=True,
        ),
        Lie(Kept(What.METADATA), (Method.FORMAT_USER,), Trigger("left")),
    ),
    (Odd("by-die"), Odd("slow-reset")),
)


def test_what_is_not_needed_goes() -> None:
    def resets_by_function(drive: Description) -> bool:
        return any("reset function" in lie.trigger.words for lie in drive.lies)

    found = shrink(LARGE, resets_by_function)
    (lie,) = found.lies
    assert lie.trigger == Trigger("reset", "function")
    assert (lie.kept, lie.stays, found.odd) == (Kept(), False, ())
    assert found.abilities == Abilities(methods=lie.survives)
    assert len(lie.survives) == 1


def test_what_is_needed_stays() -> None:
    def is_wanted(drive: Description) -> bool:
        return (
            any(lie.kept.what is What.METADATA for lie in drive.lies)
            and any(one.name == "slow-reset" for one in drive.odd)
            and drive.abilities.management
        )

    found = shrink(LARGE, is_wanted)
    assert [lie.kept.what for lie in found.lies] == [What.METADATA]
    assert found.lies[0].trigger == Trigger()
    assert found.odd == (Odd("slow-reset"),)
    assert found.abilities.metadata, "a drive that keeps metadata has some"


def test_nothing_smaller_is_left() -> None:
    found = shrink(LARGE, lambda drive: bool(drive.lies))
    for one in smaller(found):
        try:
            one.check()
        except DriveError:
            continue
        assert one.size >= found.size or not one.lies


def test_it_only_asks_about_smaller_and_valid_drives() -> None:
    asked: list[Description] = []

    def remember(drive: Description) -> bool:
        asked.append(drive)
        return len(asked) % 3 == 0

    for seed in range(1, 60):
        drive = compose(seed)
        found = shrink(drive, remember)
        found.check()
        assert found.size <= drive.size
    for one in asked:
        one.check()


def test_a_drive_shrinks_to_what_a_second_tenant_still_gets(tmp_path: Path) -> None:
    """The whole way: what is asked is a real audit."""
    seen = 0

    def leaks(drive: Description) -> bool:
        nonlocal seen
        seen += 1
        directory = tmp_path / str(seen)
        directory.mkdir()
        found = audit(drive, directory, size=1 << 20, rounds=1, method=Method.FORMAT_USER)
        return "metadata" in found.loot.sectors

    start = replace(LARGE, lies=LARGE.lies[1:], odd=LARGE.odd[:1])
    found = shrink(start, leaks)
    assert found.sentence == (
        "keeps metadata through format-user and shows it at once "
        "(erases by format-user, has formats with metadata)"
    )
