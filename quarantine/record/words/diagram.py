"""The life cycle as docs/states.md has it, read off the transition table."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from quarantine.record.words import states
from quarantine.record.words.lifecycle import TRANSITIONS
from quarantine.record.words.states import Event, State


def arrows() -> list[tuple[State | None, State, tuple[Event, ...]]]:
    """Transitions, those between the same two states as one arrow with several events."""
    found: dict[tuple[State | None, State], list[Event]] = {}
    for step in TRANSITIONS:
        found.setdefault((step.source, step.target), []).append(step.event)
    return [(source, target, tuple(events)) for (source, target), events in found.items()]


def docstrings(cls: type[State] | type[Event]) -> dict[str, str]:
    """The text under each member, which Python itself throws away."""
    tree = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for line, after in zip(tree.body, tree.body[1:], strict=False):
        match line, after:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[cls[name].value] = " ".join(text.replace("``", "`").split())
    return found


def mermaid() -> str:
    """A state diagram that common viewers of Markdown draw."""
    lines = ["stateDiagram-v2"]
    for source, target, events in arrows():
        start = "[*]" if source is None else source.value
        lines.append(f"    {start} --> {target.value}: {', '.join(events)}")
    return "\n".join(lines) + "\n"


def table() -> str:
    """All but the page's heading: diagram, states, events, transitions."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield "```mermaid"
    yield mermaid() + "```"
    yield ""
    yield "## States"
    yield ""
    yield "| State | Meaning |"
    yield "|---|---|"
    for name, text in docstrings(State).items():
        yield f"| `{name}` | {text} |"
    yield ""
    yield "## Events"
    yield ""
    yield "| Event | What happened |"
    yield "|---|---|"
    for name, text in docstrings(Event).items():
        yield f"| `{name}` | {text} |"
    yield ""
    yield "## Transitions"
    yield ""
    yield "Anything that is not in this table is refused. Each one is a compare-and-set on state,"
    yield "generation and revision, and writes one line of history in the same transaction."
    yield ""
    yield "| From | Event | To | When |"
    yield "|---|---|---|---|"
    for step in TRANSITIONS:
        source = "(not enrolled)" if step.source is None else f"`{step.source.value}`"
        yield f"| {source} | `{step.event.value}` | `{step.target.value}` | {step.guard} |"
    yield ""
    yield "## Named sets"
    yield ""
    yield "| Set | States |"
    yield "|---|---|"
    for name, members in vars(states).items():
        if isinstance(members, frozenset):
            yield f"| `{name}` | {', '.join(f'`{s.value}`' for s in State if s in members)} |"
