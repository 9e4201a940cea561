"""Certificates as pictures, to be looked at: a screen's, and each sheet as it is printed.

``python -m tests.api.pictures DIRECTORY`` takes one of each kind that the page tells apart;
``python -m tests.api.pictures DIRECTORY FILE.html ...`` those of a record's own.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from selenium import webdriver

from eraser.protocol.policy import Label, Method, Policy
from eraser.protocol.report import ActRecord, EraseReport, StatusCount, Verdict, VisitRecord
from quarantine.evidence import certificate
from quarantine.evidence.certificate import CertificateEvidence, Link, SignedCertificate
from quarantine.evidence.sections import HistoryLine
from quarantine.evidence.sheet import page
from tests.api.browser import chromium, look
from tests.unit.quarantine.evidence.test_certificate import ISSUER, KEY, earlier, evidence_of
from tests.unit.quarantine.testimony import (
    BLOCK,
    COUNTS,
    CRYPTO,
    FACTS,
    FORMAT,
    HEALTH,
    ORDER,
    REPORT,
    VERIFICATION,
    command,
    log81,
)

DOTS = 80
"""An inch, of a sheet: all of it is legible, and one is 661 x 935."""
SCREEN, PHONE = 1100, 390
_ISSUED = "2026-11-20T12:00:00Z"


@dataclass(frozen=True)
class Pictures:
    """Of one page."""

    name: str
    screen: Path
    sheets: tuple[Path, ...]
    words: tuple[str, ...]
    """Of each sheet, as its PDF has them."""


def kinds() -> Iterator[tuple[str, str]]:
    """A name and a page: green, amber and red, short and long, of both formats."""
    yield "purged", _page(evidence_of())
    yield "visited", _page(evidence_of(_visited()))
    cleared = _cleared()
    yield "cleared-as-asked", _page(evidence_of(replace(cleared, asked=Label.CLEAR)))
    yield "downgraded", _page(evidence_of(replace(cleared, downgraded=True)))
    bad = replace(CRYPTO, verdict=Verdict.NOT_ERASED, reason="failed", log_after=log81(3, 4))
    failed = evidence_of(replace(REPORT, methods=(bad, BLOCK)))
    allowed = replace(ORDER, policy=Policy(allow_failed=True))
    yield "a-technique-failed", _page(replace(failed, order=allowed))
    key_alone = evidence_of(replace(REPORT, methods=(CRYPTO,)))
    alone = replace(ORDER, policy=Policy(purge_methods=(Method.SANITIZE_CRYPTO,)))
    yield "not-attested", _page(replace(key_alone, order=alone))
    noise = replace(COUNTS, zeros=0, random=COUNTS.read, uniform="")
    proof = replace(VERIFICATION, namespaces=(noise,), expected="unknown", probed=1024)
    yield "noise", _page(evidence_of(replace(REPORT, verification=proof)))
    worn = ("available spare is 3 %, the policy asks for 10 %", "media errors: 12 new ones")
    yield "not-handed-out", _page(replace(evidence_of(), withheld=worn))
    yield "long", _page(_long())
    files, key = earlier()
    yield "format-1", page.render(certificate.read_document(files[0][1], [key], "file"))


def _page(given: CertificateEvidence) -> str:
    signed: SignedCertificate = certificate.sign(
        certificate.build(given, ISSUER, Link(), _ISSUED), KEY
    )
    return page.render(signed)


def _cleared() -> EraseReport:
    facts = replace(FACTS, sanicap=0)
    return replace(
        REPORT, achieved=Label.CLEAR, methods=(FORMAT,), commands=(command(0x80, 0x200),),
        facts_before=facts, facts_after=facts,
    )  # fmt: skip


def _visited() -> EraseReport:
    ways = ("single blocks", "large reads", "backward reads", "odd lengths", "the same again",
            "unaligned memory", "reads with FUA", "reads with hints", "other queues")  # fmt: skip
    acts = tuple(ActRecord(way, 258, 0, 0, 0, 0, 258) for way in ways)
    undone = ("power cycle", "reset of the bus: the policy does not ask for it",
              "namespace 1: unaligned reads do not apply to sectors of 4,096 bytes")  # fmt: skip
    visits = (
        VisitRecord(1, True, (*acts, ActRecord("Compare", 2064, 0, 0, 0, 0, 258)), undone),
        VisitRecord(2, False, acts, (*undone, "writes: nothing is written after the last method"),
                    idle=30.0),
    )  # fmt: skip
    return replace(REPORT, visits=visits)


def _long() -> CertificateEvidence:
    """Many of everything, with words that do not break by themselves."""
    [layout] = FACTS.namespaces
    layouts = tuple(replace(layout, nsid=n, metadata_bytes=8 * (n % 2)) for n in range(1, 13))
    statuses = (StatusCount(0x281, 2), StatusCount(None, 1))
    counts = tuple(replace(COUNTS, nsid=n, statuses=statuses) for n in range(1, 13))
    facts = replace(FACTS, namespaces=layouts, dlfeat=(1,) * 12)
    identity = replace(ORDER.identity, serial="S" * 20, model="M" * 40, subnqn="nqn." + "x" * 219)
    report = replace(
        _visited(), identity=identity, facts_before=facts, facts_after=facts, resumed=3,
        verification=replace(VERIFICATION, namespaces=counts), reasons=("w" * 300,),
        health=replace(HEALTH, spare_threshold=5),
    )  # fmt: skip
    history = tuple(
        HistoryLine(f"2026-11-20T10:{n:02}:00Z", "erasing", "erasing", "a word " * 20)
        for n in range(30)
    )
    order = replace(ORDER, identity=identity)
    return replace(evidence_of(report), order=order, history=history)


def take(driver: webdriver.Chrome, name: str, html: str, directory: Path) -> Pictures:
    """A page's pictures, below ``directory``. Raises ``CalledProcessError`` where poppler fails."""
    show(driver, name, html, directory, width=SCREEN)
    whole = {"format": "png", "captureBeyondViewport": True}
    screen = directory / f"{name}.screen.png"
    screen.write_bytes(_data(driver.execute_cdp_cmd("Page.captureScreenshot", whole)))
    pdf = directory / f"{name}.pdf"
    sheets = {"preferCSSPageSize": True, "printBackground": True}
    pdf.write_bytes(_data(driver.execute_cdp_cmd("Page.printToPDF", sheets)))
    for old in directory.glob(f"{name}.sheet-*.png"):
        old.unlink()
    prefix = directory / f"{name}.sheet"
    subprocess.run(["pdftoppm", "-r", str(DOTS), "-png", pdf, prefix], check=True)
    text = subprocess.run(["pdftotext", "-layout", pdf, "-"], check=True, stdout=subprocess.PIPE)
    return Pictures(
        name,
        screen,
        tuple(sorted(directory.glob(f"{name}.sheet-*.png"))),
        tuple(text.stdout.decode().split("\f")[:-1]),
    )


def show(driver: webdriver.Chrome, name: str, html: str, directory: Path, *, width: int) -> None:
    """Opens the page from a file, as a reader does, on a screen of this width."""
    file = directory / f"{name}.html"
    file.write_text(html, encoding="utf-8")
    look(driver, width=width)
    driver.get(file.resolve().as_uri())


def _data(answer: dict[str, str]) -> bytes:
    return base64.b64decode(answer["data"])


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.api.pictures", description=__doc__)
    parser.add_argument("directory", type=Path, help="where the pictures go")
    parser.add_argument("files", type=Path, nargs="*", help="DIGEST.html; else one of each kind")
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    pages = [(file.stem, file.read_text(encoding="utf-8")) for file in options.files]
    with chromium() as driver:
        for name, html in pages or kinds():
            made = take(driver, name, html, options.directory)
            print(made.screen, *made.sheets, sep="\n")


if __name__ == "__main__":
    main()
