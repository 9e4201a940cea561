"""The whole site in one process on simulated time, one seed deciding everything: docs/site.md."""
