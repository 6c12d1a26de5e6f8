"""promtool, Prometheus' own checker, from the distribution's package."""

from __future__ import annotations

from tests.support.servers.debian import program


def promtool() -> str:
    """Path of the program; fetched once."""
    return str(program("usr/bin/promtool", ["prometheus"]))
