"""Documents of the record, read as another release of ours may have written them.

What a host sends is read strictly when it comes. What is stored was checked then, perhaps by a
newer release during an upgrade: members that we do not know are left alone, and what cannot be read
at all is an error of that row and of no other.
"""

from __future__ import annotations

from typing import TypeVar

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError
from quarantine.errors import UnreadableError

T = TypeVar("T")


def load(cls: type[T], text: str, what: str) -> T:
    """A stored document of ours. Raises :class:`UnreadableError` naming ``what``."""
    try:
        return codec.decode(cls, codec.known(cls, codec.parse(text, what)), what)
    except BadInputError as error:
        raise UnreadableError(str(error)) from error
