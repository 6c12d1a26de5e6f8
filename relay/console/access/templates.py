"""The pages of logins, from the templates beside this module."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from relay.console.static import STATIC


def render(template: str, **values: object) -> str:
    """A page; every value is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    loader = FileSystemLoader(Path(__file__).with_name("pages"))
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.globals["static"] = STATIC
    return pages
