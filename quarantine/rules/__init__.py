"""Decisions about slots, drives and reports. Pure: no database, no network, no service."""
