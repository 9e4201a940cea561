"""QEMU's monitor: one request, one answer; events are kept for whoever looks into a failure."""

import json
import socket
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.lab.errors import QmpError

_ANSWER_S = 60.0


class Monitor:
    """A QMP connection. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_ANSWER_S)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rb")
        self._lock = threading.Lock()
        self.events: deque[dict[str, Any]] = deque(maxlen=200)
        self._read()
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: object) -> Any:
        """Run a monitor command and return its result.

        Raises ``QmpError`` when QEMU refuses it or has closed the connection.
        """
        message = json.dumps({"execute": command, "arguments": arguments}) + "\n"
        with self._lock:
            try:
                self._socket.sendall(message.encode())
                while "event" in (answer := self._read()):
                    self.events.append(answer)
            except OSError as error:
                raise QmpError(f"QEMU did not answer {command}: {error}; see qemu.log") from error
        if "error" in answer:
            raise QmpError(f"QEMU refused {command}: {answer['error'].get('desc', answer)}")
        return answer["return"]

    def close(self) -> None:
        """Close the connection; QEMU goes on."""
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            raise QmpError("QEMU closed its monitor; see qemu.log")
        answer = json.loads(line)
        if not isinstance(answer, dict):
            raise QmpError(f"expected an object from QEMU's monitor, got {line[:80]!r}")
        return answer
