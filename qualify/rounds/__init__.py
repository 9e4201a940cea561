"""Runs of fio, round after round: which comes next, and whether they have settled."""
