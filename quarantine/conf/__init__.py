"""The control plane's options: one module per group, no global; ``load`` makes a ConfigOpts."""

from quarantine.conf.opts import DEFAULT_FILE, list_opts, load, register_opts

__all__ = ["DEFAULT_FILE", "list_opts", "load", "register_opts"]
