"""Measures a drive or an array with fio (issue D builds it)."""
