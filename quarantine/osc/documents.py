"""Documents of the API as commands have them: rows, members, slots and times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from eraser.protocol.identity import Slot
from quarantine.cli.output import warn
from quarantine.cli.sources.columns import place as place
from quarantine.cli.sources.columns import slot
from quarantine.cli.sources.source import Columns, Members
from quarantine.osc.client import AnswerError

Document = Mapping[str, Any]
T = TypeVar("T")


def provider(words: str) -> str:
    """A slot's name in the API: HOST/PCI-ADDRESS, or what is typed."""
    if "/" not in words:
        return words
    place = slot(words)
    # As Nova names the provider; our own addresses are in lower case.
    return f"{place.host}_{place.address.upper()}"


def rows_of(
    names: Sequence[str],
    make: Callable[[Document], Document],
    found: Iterable[Document],
) -> Columns:
    """A list, read as it comes."""

    def rows() -> Iterator[Sequence[Any]]:
        for one in found:
            row = members_of(names, make, one)[1]
            yield row
            # Of slots the remarks say it.
            # After its row, so that the warning stands below it.
            if (words := one.get("damaged")) and "remarks" not in names:
                warn(f"{' '.join(str(value) for value in row[:3])}: {words}")

    return names, rows()


def members_of(
    names: Sequence[str], make: Callable[[Document], Document], one: Document, doubt: str = ""
) -> Members:
    """One thing's."""
    made = understood(lambda: make(one), doubt)
    return names, [made[name] for name in names]


def versioned(one: Document, version: str) -> Members:
    """With what a decision about it names."""
    return [*one, "version"], [*one.values(), version]


def understood(make: Callable[[], T], doubt: str = "") -> T:
    """A document of the API as ours. Raises :class:`AnswerError` for another one, which ends with
    ``doubt`` (see :class:`ApiAnswer`)."""
    try:
        return make()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # All that reading a document of another shape can raise: what answered may be anything.
        why = f"{type(error).__name__}: {error}"
        raise AnswerError(
            f"expected a document of the API, found another ({why}){doubt}"
        ) from error


def moment(value: Any) -> datetime | None:
    """A time, or none."""
    return None if value is None else datetime.fromisoformat(value)


def placed(name: Any) -> Slot | str:
    """By the name of its provider."""
    return place(*parts(name))


def maybe_placed(name: Any) -> Slot | str | None:
    """Likewise, where there is one."""
    return None if name is None else placed(name)


def parts(name: Any) -> tuple[str, str]:
    """Split from the right: a host's name may contain ``_``."""
    host, _, address = str(name).rpartition("_")
    return host, address.lower()
