"""What the last gate costs a start on this machine, as far as that shows without a drive.

Libvirt's hook is called for a guest whose drive is not there, which the gate refuses after the
whole way but for the drive's own answers: with a resident gate and without. In starts of a bare
Python.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import eraser
from benchmarks.gate import rounds
from eraser.gate import hookfile

_ABSENT = "0000:fe:00.0"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate.native", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="of which the quickest counts")
    chosen = parser.parse_args()
    library, python = str(Path(eraser.__file__).parents[1]), os.path.realpath(sys.executable)
    with tempfile.TemporaryDirectory(prefix="nvq-bench-") as scratch:
        place = Path(scratch)
        for name in ("state", "run"):
            (place / name).mkdir()
        answered, forking = (place / name / "qemu.d" / "hook" for name in ("answered", "forking"))
        settings = hookfile.HookSettings(python, library, f"{place}/state", f"{place}/run")
        rounds.install(answered, forking, settings)
        words = ["absent", "prepare", "begin", "-"]
        absent = rounds.domain("absent", [_ABSENT])
        load = f"import sys; sys.path.append({library!r}); import eraser.gate.door"
        calls = {
            "python": ([python, "-IS", "-c", ""], b""),
            "python and the gate": ([python, "-IS", "-c", load], b""),
            "plain": ([str(answered), *words], rounds.domain("plain", [])),
            "absent": ([str(answered), *words], absent),
            "absent, forked": ([str(forking), *words], absent),
        }
        serving = rounds.resident([python, "-m", "eraser.cli"], place / "state", place / "run")
        try:
            times = rounds.quickest(chosen.rounds, calls, refused=("absent", "absent, forked"))
        finally:
            serving.kill()
            serving.wait()
    seconds = times.pop("python")
    print(f"a bare Python takes {seconds * 1000:.1f} ms here; in starts of it:")
    for name, time in times.items():
        print(f"  {name:20} {time / seconds:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
