"""Stands in for nvme-cli where a test needs answers that no drive gives; run as a program.

``answers.json`` beside the link by which it was called maps "opcode cdw10 nsid" (hexadecimal, as in
the argv) to [exit code, standard error, file of standard output].
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main() -> int:
    if sys.argv[1:] == ["version"]:
        print("nvme version 2.3 (git 2.3)")
        return 0
    here = Path(sys.argv[0]).parent
    options = dict(a.removeprefix("--").partition("=")[::2] for a in sys.argv[3:])
    with (here / "calls").open("a") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\n")
    key = " ".join(
        f"{int(options.get(name, '0'), 0):x}" for name in ("opcode", "cdw10", "namespace-id")
    )
    answers = json.loads((here / "answers.json").read_text())
    code, errors, output = answers.get(key, [1, "NVMe status: Invalid Field(0x4002)\n", ""])
    if code < 0:
        time.sleep(3600)
    sys.stderr.write(errors)
    if output:
        sys.stdout.buffer.write(Path(output).read_bytes())
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
