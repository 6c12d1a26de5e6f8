"""Django's connections to a test's database, made as a project's settings make them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import connections

from tests.support.fixtures.database import Database


@contextmanager
def django_connection(database: Database, alias: str | None = None) -> Iterator[Any]:
    """A member of ``django.db.connections``, by default named like the database; closed at the end of the block."""
    alias = alias or database.name
    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    place = urlsplit(database.url)
    given = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": database.name,
        "HOST": place.hostname,
        "PORT": place.port,
        "USER": place.username,
        "PASSWORD": place.password or "",
    }
    connections.settings[alias] = connections.configure_settings({"default": given})["default"]
    try:
        yield connections[alias]
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]
