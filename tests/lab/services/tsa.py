"""A time stamping authority (RFC 3161) for one test: OpenSSL's, behind HTTP on loopback."""

from __future__ import annotations

import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

_CONFIGURATION = """
[tsa]
default_tsa = throwaway
[throwaway]
serial = {directory}/serial
signer_cert = {directory}/tsa.pem
certs = {directory}/ca.pem
signer_key = {directory}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ess_cert_id_chain = no
ess_cert_id_alg = sha256
"""

_REQUEST = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


def _openssl(*words: str | Path) -> bytes:
    argv = ["openssl", *map(str, words)]
    return subprocess.run(argv, check=True, capture_output=True).stdout


def verified(ca: Path, data: Path, answer: Path) -> bool:
    """Whether OpenSSL takes the time stamp of a file."""
    argv = ["openssl", "ts", "-verify", "-data", data, "-in", answer, "-CAfile", ca]
    done = subprocess.run(list(map(str, argv)), check=False, capture_output=True, text=True)
    return done.returncode == 0 and "Verification: OK" in done.stdout


class Tsa:
    """Answers every POST. ``ca`` is its root; ``spoil`` changes each answer on its way."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = directory / "ca.pem"
        self.asked = 0
        self.spoil = bytes
        self._make_keys()
        directory.joinpath("conf").write_text(_CONFIGURATION.format(directory=directory))
        authority = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = authority.spoil(authority.answer(raw))
                self.send_response(200)
                self.send_header("Content-Type", "application/timestamp-reply")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/tsa"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    def _make_keys(self) -> None:
        where = self.directory
        name = ("-subj", "/CN=Throwaway root")
        _openssl(*_REQUEST, "-x509", *name, "-keyout", where / "ca.key", "-out", self.ca)
        name = ("-subj", "/CN=Throwaway TSA")
        _openssl(*_REQUEST, *name, "-keyout", where / "tsa.key", "-out", where / "tsa.csr")
        (where / "ext").write_text("extendedKeyUsage = critical, timeStamping\n")
        _openssl(
            *("x509", "-req", "-in", where / "tsa.csr", "-CA", self.ca, "-CAkey", where / "ca.key"),
            *("-CAcreateserial", "-days", "2", "-extfile", where / "ext"),
            *("-out", where / "tsa.pem"),
        )

    def answer(self, question: bytes) -> bytes:
        """A TimeStampResp for a TimeStampReq, both DER."""
        self.asked += 1
        query = self.directory / f"query-{self.asked}.tsq"
        query.write_bytes(question)
        conf = self.directory / "conf"
        return _openssl("ts", "-reply", "-config", conf, "-queryfile", query)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
