"""Steering a served drive from outside: one JSON object per line on a UNIX socket.

Requests: ``{"do": "set_faults", "faults": {...}}``, ``get_faults``, ``set_smart`` (``smart``),
``leave`` (``leftovers``), ``power_off``, ``power_on``, ``power_cycle``, ``state``, ``truth``.
Answers: ``{"ok": ..., "error": ...}``.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.lab.nvme import leftovers
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.faults import Faults
from tests.lab.nvme.jsonform import from_json, to_json
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.nature import Truth
from tests.lab.nvme.state import DriveState, SmartState

_TIMEOUT_SECONDS = 30


class ControlServer:
    """Answers requests about one drive, several clients at a time."""

    def __init__(self, drive: Drive, path: Path) -> None:
        """Listen on ``path``; a stale socket file is replaced."""
        self._drive = drive
        self._path = path
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, name=path.name, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):  # not connected: that is what wakes up accept
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._client, args=(client,), daemon=True).start()

    def _client(self, client: socket.socket) -> None:
        with client, client.makefile("rw", encoding="utf-8") as stream:
            for line in stream:
                answer: dict[str, Any] = {"ok": None, "error": None}
                try:
                    answer["ok"] = self._answer(json.loads(line))
                except (DriveError, ValueError, KeyError, TypeError) as error:
                    answer["error"] = str(error) or repr(error)
                try:
                    stream.write(json.dumps(answer) + "\n")
                    stream.flush()
                except OSError:
                    return

    def _answer(self, request: Any) -> Any:
        if not isinstance(request, dict):
            raise DriveError(f"a request should be a JSON object, found {request!r}")
        drive, wanted = self._drive, request.get("do")
        with drive.lock:
            match wanted:
                case "set_faults":
                    drive.set_faults(from_json(Faults, request["faults"]))
                case "get_faults":
                    return to_json(drive.faults)
                case "set_smart":
                    drive.state.smart = from_json(SmartState, request["smart"])
                    drive.save()
                case "leave":
                    leftovers.apply(drive, from_json(Leftovers, request["leftovers"]))
                case "power_off":
                    drive.power_off()
                case "power_on":
                    drive.power_on()
                case "power_cycle":
                    drive.power_cycle()
                case "state":
                    drive.tick()
                    return {
                        "powered": drive.powered,
                        "counters": drive.counters.as_dict(),
                        "state": to_json(drive.state),
                    }
                case "truth":
                    return to_json(drive.nature.truth())
                case _:
                    raise DriveError(f"a drive cannot do {wanted!r}: see tests/lab/nvme/control.py")
        return True


class DriveControl:
    """A client of the control socket."""

    def __init__(self, path: Path) -> None:
        """Connect. Raises DriveError where nobody listens."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_TIMEOUT_SECONDS)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise DriveError(f"a drive should listen on {path}: {error}") from error
        self._stream = self._socket.makefile("rw", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self._socket.close()

    def faults(self) -> Faults:
        """The faults in force."""
        return from_json(Faults, self._ask("get_faults"))

    def set_faults(self, faults: Faults) -> None:
        """Replace all faults at once."""
        self._ask("set_faults", faults=to_json(faults))

    def set_smart(self, smart: SmartState) -> None:
        """Replace the health values."""
        self._ask("set_smart", smart=to_json(smart))

    def leave(self, what: Leftovers) -> None:
        """Do to the drive what a tenant did."""
        self._ask("leave", leftovers=to_json(what))

    def power_off(self) -> None:
        """Take the power away; the function answers all ones."""
        self._ask("power_off")

    def power_on(self) -> None:
        """Give power back; an interrupted sanitize goes on."""
        self._ask("power_on")

    def power_cycle(self) -> None:
        """Off and on."""
        self._ask("power_cycle")

    def state(self) -> DriveState:
        """What the drive remembers."""
        return from_json(DriveState, self._ask("state")["state"])

    def counters(self) -> dict[str, int]:
        """The drive's counters by name (``counters.Counter`` in lower case)."""
        counters = self._ask("state")["counters"]
        return {str(name): int(value) for name, value in counters.items()}

    def truth(self) -> Truth:
        """What a composed drive keeps and shows, as no host can ask it."""
        found = self._ask("truth")
        kept, shown = (
            {
                str(store): [(int(start), int(end)) for start, end in ranges]
                for store, ranges in found[part].items()
            }
            for part in ("kept", "shown")
        )
        return Truth(kept, shown)

    def powered(self) -> bool:
        """Whether it has power."""
        return bool(self._ask("state")["powered"])

    def _ask(self, do: str, **fields: Any) -> Any:
        self._stream.write(json.dumps({"do": do, **fields}) + "\n")
        self._stream.flush()
        line = self._stream.readline()
        if not line:
            raise DriveError(f"the drive should answer {do}, its server ended")
        answer = json.loads(line)
        if answer["error"]:
            raise DriveError(f"the drive refused {do}: {answer['error']}")
        return answer["ok"]
