"""Drives that are composed: what they keep, what shows it, and what is odd about them.

Written from the standard and from public reports on drives, without a look at any verifier.
``docs/composed.md`` is the grammar in tables.
"""
