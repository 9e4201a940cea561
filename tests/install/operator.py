"""Somebody who follows the guide: types its lines, fills in what is theirs, carries files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from tests.lab.bare import nova
from tests.lab.bare.guest import BareGuest
from tests.lab.errors import LabError
from tests.lab.guest.commands import Completed
from tests.lab.services.process import wait_until

CONTROL: Final = "control.example"
HOST: Final = "cmp1.example"
REDIS: Final = "redis.example"
"""The guide's own names: nothing is replaced for them."""

PLACEHOLDERS: Final[Mapping[str, str]] = {
    # The slots of the lab's machine.
    "0000:81:00.0 0000:82:00.0": "0000:01:00.0 0000:02:00.0",
    "--python /usr/bin/python3": f"--python {nova.PYTHON}",
}
"""What stands in the guide for something of the reader's own, and what that is here."""


class Operator:
    """At one machine. ``typed`` are the lines, as they stand in the guide."""

    def __init__(self, guest: BareGuest) -> None:
        self.guest = guest
        self.typed: list[str] = []

    def follow(self, lines: Iterable[str]) -> Completed | None:
        """Type each line of a block; what the last one said. Raises ``CommandFailed``."""
        done = None
        for line in lines:
            self.typed.append(line)
            done = self.guest.step(filled(line))
        return done

    def look_until_good(self, line: str, seconds: float) -> None:
        """Type a line that shows how things stand, again until it ends well.

        Programs that systemd just started take a minute to load where everything is emulated.
        """
        self.typed.append(line)
        with suppress(LabError):
            wait_until(
                lambda: self.guest.step(line, check=False).returncode == 0, line, seconds, every=5
            )
        self.guest.step(line)  # or it says here what is not good

    def edit(self, path: str, group: str, **options: str) -> None:
        """Set options in a configuration file that has the group already, below its heading."""
        text = self.guest.get(path).decode()
        heading = f"[{group}]\n"
        assert text.count(f"\n{heading}") == 1, f"expected one {heading.strip()} in {path}"
        lines = "".join(f"{name} = {value}\n" for name, value in options.items())
        # In place: the owner and the mode that the guide gave it stay.
        self.guest.step(f"cat >{path} <<'END'\n{text.replace(heading, heading + lines)}END")

    def carry(self, source: str, to: Operator, target: str) -> None:
        """Copy a file to another machine, or to another place of this one, as root."""
        content = self.guest.get(source)
        mode = int(self.guest.step(f"stat -c %a {source}").stdout, 8)
        to.guest.put(target, content, mode=mode)


def filled(line: str) -> str:
    """A line with what is ours in the place of the guide's examples."""
    for example, ours in PLACEHOLDERS.items():
        line = line.replace(example, ours)
    return line
