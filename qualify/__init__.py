"""Measures a drive or an array with fio. Not built yet."""
