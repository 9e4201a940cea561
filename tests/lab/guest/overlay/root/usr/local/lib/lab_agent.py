"""Command agent of a lab guest: JSON lines over a virtio serial port, standard library only.

A request is one line ``{"id": n, "op": name, ...}``, its answer one line with the same id and
either ``"error"`` or the results. Requests run in threads of their own, so a command stuck in the
kernel does not silence the agent. Bytes travel as base64.
"""

import base64
import fcntl
import glob
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Request = dict[str, Any]
Answer = dict[str, Any]

PORT = "org.nvme-quarantine.agent"
RNDADDENTROPY = 0x40085203
RNDRESEEDCRNG = 0x5207
ENVIRONMENT = {
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": "/opt/src:/opt/site",
    "TERM": "dumb",
}

children: dict[int, subprocess.Popen[bytes]] = {}


def text64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def run(request: Request) -> Answer:
    process = subprocess.Popen(
        request["argv"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT | request.get("env", {}),
        cwd=request.get("cwd", "/root"),
        start_new_session=True,
    )
    expired = False
    try:
        out, err = process.communicate(
            base64.b64decode(request.get("stdin", "")), timeout=request["limit"]
        )
    except subprocess.TimeoutExpired:
        expired = True
        os.killpg(process.pid, signal.SIGKILL)
        try:
            # A process in uninterruptible sleep survives SIGKILL; do not wait for ever.
            out, err = process.communicate(timeout=2)
        except subprocess.TimeoutExpired as late:
            out, err = late.stdout or b"", late.stderr or b""
    return {
        "rc": process.returncode,
        "expired": expired,
        "out": text64(out),
        "err": text64(err),
    }


def spawn(request: Request) -> Answer:
    with open(request["stdout"], "ab") as out, open(request["stderr"], "ab") as err:
        process = subprocess.Popen(
            request["argv"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=ENVIRONMENT | request.get("env", {}),
            cwd=request.get("cwd", "/root"),
            start_new_session=True,
        )
    children[process.pid] = process
    return {"pid": process.pid}


def poll(request: Request) -> Answer:
    return {"rc": children[request["pid"]].poll()}


def wait(request: Request) -> Answer:
    try:
        return {"rc": children[request["pid"]].wait(request["limit"])}
    except subprocess.TimeoutExpired:
        return {"rc": None}


def send_signal(request: Request) -> Answer:
    # Never to a child that has been reaped: its number may belong to somebody else by now.
    child = children.get(request["pid"])
    if child is not None and child.poll() is not None:
        return {"sent": False}
    deliver = os.killpg if request.get("group") else os.kill
    try:
        deliver(request["pid"], request["signal"])
    except ProcessLookupError:
        return {"sent": False}
    return {"sent": True}


def await_path(request: Request) -> Answer:
    deadline = time.monotonic() + request["limit"]
    while True:
        met = bool(glob.glob(request["pattern"])) != request["gone"]
        if met or time.monotonic() > deadline:
            return {"met": met}
        time.sleep(0.02)


def put(request: Request) -> Answer:
    path = Path(request["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab" if request.get("append") else "wb") as handle:
        handle.write(base64.b64decode(request["data"]))
    if "mode" in request:
        path.chmod(request["mode"])
    return {}


def get(request: Request) -> Answer:
    with open(request["path"], "rb") as handle:
        handle.seek(request["offset"])
        return {"data": text64(handle.read(request["size"]))}


def resume(request: Request) -> Answer:
    """Make a restored copy of the saved machine an individual: clock, randomness, name, mounts."""
    time.clock_settime(time.CLOCK_REALTIME, request["time"])
    seed = base64.b64decode(request["entropy"])
    with open("/dev/random", "wb", buffering=0) as device:
        pool = struct.pack("ii", len(seed) * 8, len(seed)) + seed
        fcntl.ioctl(device, RNDADDENTROPY, pool)
        fcntl.ioctl(device, RNDRESEEDCRNG)
    Path("/proc/sys/kernel/hostname").write_text(request["name"])
    Path("/etc/hostname").write_text(request["name"] + "\n")
    Path("/etc/machine-id").write_text(request["machine_id"] + "\n")
    # The kernel makes its boot id once; every restored copy would claim to be the same boot.
    Path("/run/lab/boot_id").write_text(request["boot_id"] + "\n")
    mounts = ["mount --bind /run/lab/boot_id /proc/sys/kernel/random/boot_id"]
    for disk in request["disks"]:
        mounts += [
            "blockdev --flushbufs " + disk["device"],
            "mount -t ext4 -o {options} {device} {target}".format(**disk),
        ]
    mounts += [f"mount --bind {source} {target}" for source, target in request["binds"]]
    done = subprocess.run(
        ["/bin/sh", "-ec", "\n".join(mounts)], capture_output=True, env=ENVIRONMENT, check=False
    )
    if done.returncode:
        raise OSError(done.stderr.decode(errors="replace").strip())
    return {}


OPERATIONS: dict[str, Callable[[Request], Answer]] = {
    "await": await_path,
    "get": get,
    "ping": lambda request: {},
    "poll": poll,
    "put": put,
    "resume": resume,
    "run": run,
    "signal": send_signal,
    "spawn": spawn,
    "wait": wait,
}


class Port:
    """The serial port: whole lines out, one writer at a time."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.lock = threading.Lock()

    def send(self, message: Answer) -> None:
        data = (json.dumps(message) + "\n").encode()
        with self.lock:
            while data:
                data = data[os.write(self.fd, data) :]

    def answer(self, request: Request) -> None:
        try:
            result = OPERATIONS[request["op"]](request)
        except Exception as error:
            # Every failure goes to the one who asked; the agent itself must go on.
            result = {"error": f"{type(error).__name__}: {error}"}
        self.send({"id": request["id"], **result})


def find_port() -> str:
    for name in os.listdir("/sys/class/virtio-ports"):
        if Path("/sys/class/virtio-ports", name, "name").read_text().strip() == PORT:
            return "/dev/" + name
    sys.exit("lab-agent: no virtio port named " + PORT)


def main() -> None:
    port = Port(os.open(find_port(), os.O_RDWR))
    port.send({"hello": os.uname().release})
    pending = b""
    while True:
        data = os.read(port.fd, 1 << 16)
        if not data:
            # Nobody has opened the host's end; a virtio port reads as empty then.
            time.sleep(0.02)
            continue
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            if line.strip():
                request = json.loads(line)
                threading.Thread(target=port.answer, args=(request,), daemon=True).start()


main()
