"""Ansible connection plugin into a guest of the lab, through the test's relay."""

from __future__ import annotations

import base64
import json
import socket
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: lab
short_description: a guest of the lab
description: Runs commands through the relay of the test that holds the guest.
author: the nvme-quarantine authors
options:
  socket:
    description: The relay's unix socket.
    vars: [{name: lab_socket}]
"""


class Connection(ConnectionBase):  # type: ignore[misc]
    """As root, without a shell of its own: the agent runs each command."""

    transport = "lab"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(
        self, cmd: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        """Run a command line."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        stdin = base64.b64encode(in_data or b"").decode()
        answer = self._ask(op="run", command=cmd, stdin=stdin)
        return answer["code"], base64.b64decode(answer["out"]), base64.b64decode(answer["err"])

    def put_file(self, in_path: str, out_path: str) -> None:
        """Copy a file into the guest."""
        data = base64.b64encode(Path(in_path).read_bytes()).decode()
        self._ask(op="put", path=out_path, data=data)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Copy a file out of the guest."""
        Path(out_path).write_bytes(base64.b64decode(self._ask(op="get", path=in_path)["data"]))

    def close(self) -> None:
        """Nothing is kept open."""
        self._connected = False

    def _ask(self, **request: str) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(self.get_option("socket"))
            channel.sendall((json.dumps(request) + "\n").encode())
            with channel.makefile("rb") as stream:
                answer: dict[str, Any] = json.loads(stream.readline())
        if "error" in answer:
            raise AnsibleConnectionFailure(answer["error"])
        return answer
