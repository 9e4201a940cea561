"""The tables of docs/portraits.md, made from the portraits."""

from __future__ import annotations

from typing import Final

from eraser.erase.plan import Capabilities, ErasePlan, FormatTarget, make_plan
from eraser.protocol.policy import Label, Policy
from tests.lab.nvme.portraits.portrait import Portrait, Source, portraits

POLICIES: Final = {
    "Purge": Policy(),
    "Purge, Clear allowed": Policy(allow_clear=True),
    "Clear": Policy(label=Label.CLEAR),
}
"""What an operator may ask: the built-in policy, the same with ``allow_clear``, and Clear."""


def plan(portrait: Portrait, policy: Policy) -> ErasePlan:
    """What the eraser would send to the drive of a portrait, which has one namespace."""
    capabilities = Capabilities(*(portrait.number(name) for name in ("oacs", "fna", "sanicap")))
    return make_plan(policy, capabilities, (FormatTarget(1, portrait.number("flbas") & 0xF),))


def _link(source: Source) -> str:
    place = source.where.removeprefix("https://").rstrip("/").split("/")
    number = f" #{place[-1]}" if place[-2] in ("issues", "pull") else f" {place[-1]}"
    return f"[{place[2] if place[0] == 'github.com' else place[0]}{number}]({source.where})"


def _end(plan: ErasePlan) -> str:
    if not plan.commands:
        return "refused: held"
    sent = ", ".join(f"{each.method} ({each.cdw10:#x})" for each in plan.commands)
    return f"{plan.achieved}: {sent}"


def _whole(portrait: Portrait) -> str:
    rows = "".join(
        f"| {name.upper()} | `{figure.value or '(empty)'}` | "
        f"{', '.join(map(_link, figure.sources))} |\n"
        for name, figure in portrait.figures.items()
    )
    ends = "".join(f"| {name} | {_end(plan(portrait, p))} |\n" for name, p in POLICIES.items())
    read = "".join(f"- {_link(each)}: {each.what}.\n" for each in portrait.sources)
    return (
        f"### {portrait.model} (`{portrait.name}`)\n\n{portrait.about}.\n\n{read}\n"
        f"| figure | value | source |\n|---|---|---|\n{rows}\n"
        f"Not known, so the lab's default: {_names(portrait.not_known)}.\n"
        f"Kept and not played: {_names(portrait.not_played)}.\n\n"
        f"| policy | expected end |\n|---|---|\n{ends}"
    )


def _part(portrait: Portrait) -> str:
    rows = "".join(
        f"- {_link(each)}: {each.what}. "
        + ", ".join(
            f"{name.upper()} `{figure.value}`"
            for name, figure in portrait.figures.items()
            if each in figure.sources
        )
        + ".\n"
        for each in portrait.sources
    )
    searched = "".join(f"- searched in {each}.\n" for each in portrait.searched)
    return f"### {portrait.model}\n\n{portrait.about}.\n\n{rows}{searched}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(name.upper() for name in names) or "nothing"


def tables() -> str:
    """Everything of the page that is made from the portraits."""
    whole = "\n".join(_whole(each) for each in portraits() if each.complete)
    part = "\n".join(_part(each) for each in portraits() if not each.complete)
    return (
        f"## Models that are presets\n\n{whole}\n"
        f"## Models without a public source for SANICAP, OACS and FNA\n\n{part}"
    )
