"""What a next tenant was seen to do first is done in a visit, or told of as not done."""

from __future__ import annotations

import pytest

from eraser.case.visit import NEVER
from tests.lab.firstacts import answers, ours, page


@pytest.fixture(scope="module")
def done() -> frozenset[str]:
    """What a drive met in a case of ours, as its own log has it."""
    return ours.kinds()


def traced() -> set[str]:
    return {act for each in page.load()["activities"] for act in each["acts"]}


def test_each_act_that_was_traced_is_done_or_told_of(done: frozenset[str]) -> None:
    driver = answers.drivers(page.load())
    found = {act: answers.answer(act, done, driver) for act in traced()}
    assert not [act for act, answer in found.items() if not answer.words]
    printed = [
        a.words.removeprefix(answers.PRINTED) for a in found.values() if answers.PRINTED in a.words
    ]
    assert printed
    assert not [words for words in printed if not any(words in each for each in NEVER)]
    assert {answer.reason for answer in found.values()} - {""} == answers.patterns()


def test_a_visit_that_left_acts_out_would_be_noticed(done: frozenset[str]) -> None:
    """These are in the trace for their own sake: they are what a sweep does not do."""
    for act in (
        "Read, less than 4 KiB",
        "Read, up to 128 KiB, with Limited Retry",
        "Read, more than 128 KiB, with Limited Retry",
        "Write, 4 KiB, where nobody has read",
        "Write, less than 4 KiB, with FUA",
        "Write zeroes",
        "Deallocate",
        "Namespace Management delete",
        "Namespace Attachment detach",
        "reset of the function",
        "shutdown of the controller",
    ):
        assert act in traced()
        assert not answers.answer(act, done - {act}, ()).words


def test_the_page_is_what_the_trace_says(done: frozenset[str]) -> None:
    again = "out of date: python -m tests.lab.firstacts --page"
    assert page.PAGE.read_text() == page.render(page.load(), done), again
