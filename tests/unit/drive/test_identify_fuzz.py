"""Identify data with bytes that nobody meant, through all that looks at a drive."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eraser.controller.passthru import (
    CNS_ACTIVE,
    CNS_ALLOCATED,
    CNS_CONTROLLER,
    CNS_NAMESPACE,
    IDENTIFY,
)
from eraser.drive.featuresurvey import survey
from eraser.drive.inspect import described, facts
from eraser.drive.profile import compare, obstacles, propose
from eraser.drive.residues import residues
from eraser.erase.layout import layout_steps
from eraser.erase.plan import Capabilities, FormatTarget, make_plan
from eraser.errors import EraserError
from eraser.protocol import codec
from eraser.protocol.policy import Policy
from eraser.protocol.report import ControllerFacts
from tests.unit.controller.labdrive import FULL, LabController
from tests.unit.lab.model import Bench


class Scrambled(LabController):
    """Answers Identify with some bytes that are not so."""

    def __init__(self, bench: Bench, changes: dict[int, dict[int, int]]) -> None:
        """``changes`` by CNS: offsets and values."""
        super().__init__(bench)
        self.changes = changes

    def read(self, opcode: int, length: int, what: str, **words: Any) -> bytes:
        raw = bytearray(super().read(opcode, length, what, **words))
        if opcode == IDENTIFY:
            for at, value in self.changes.get(words["cdw10"], {}).items():
                raw[at] = value
        return bytes(raw)


_CHANGES = st.dictionaries(
    st.sampled_from([CNS_CONTROLLER, CNS_NAMESPACE, CNS_ACTIVE, CNS_ALLOCATED]),
    st.dictionaries(
        st.one_of(st.integers(0, 140), st.integers(256, 540), st.integers(0, 4095)),
        st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 0x7F, 0xFF])),
        max_size=24,
    ),
    max_size=4,
)


@settings(deadline=None, max_examples=60)
@given(changes=_CHANGES)
def test_whatever_identify_says_a_drive_is_described_or_named(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[int, dict[int, int]]
) -> None:
    """All that looks at a drive and plans its erase: facts and a plan, or one line."""
    bench = Bench(tmp_path_factory.mktemp("drive"), FULL)
    controller = Scrambled(bench, changes)
    said = "described"
    try:
        found = facts(controller)
        rules = survey(controller)
        targets = tuple(
            FormatTarget.of(nsid, each)
            for nsid, each in described(controller, controller.active_namespaces())
        )
        plan = make_plan(Policy(allow_clear=True), Capabilities.of(controller.identify()), targets)
        assert plan.commands or plan.refusal
        residues(found, found, plan.achieved)
        tuple(obstacles(found))
        codec.load(ControllerFacts, codec.canonical(found), "facts")
        wanted = propose(controller.identity(), found, rules)
        compare(wanted, controller.identity(), found, rules)
        layout_steps(wanted.namespaces, found.namespaces, (), can_manage=True, can_format=True)
    except EraserError as error:
        said = str(error)
    finally:
        bench.drive.close()
    assert said
    assert "\n" not in said
