"""The modules of examples/recipes, and a database that kills their connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from importlib import import_module
from types import ModuleType

from tests.support.fixtures.postgres import Database

KILLER = """
CREATE SEQUENCE killer_writes;
CREATE TABLE killer AS SELECT 0::BIGINT AS nth;
CREATE FUNCTION killer() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') = 'recipe' AND nextval('killer_writes') = (SELECT nth FROM killer) THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
    END IF;
    RETURN NULL;
END
$$
"""
WATCH = "CREATE TRIGGER killer AFTER {} FOR EACH STATEMENT EXECUTE FUNCTION killer()"


def recipe(name: str) -> ModuleType:
    """The module ``examples/recipes/<name>.py``."""
    return import_module(f"examples.recipes.{name}")


class Killer:
    """Ends the recipe's own connection at one of its watched writes. Each counts, also when it is rolled back."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.url = f"{database.url}?application_name=recipe"
        """For the connections that it may end."""
        database.run(KILLER)

    def watch(self, *writes: str) -> None:
        """Count these writes, for example ``INSERT ON event``."""
        for write in writes:
            self._database.run(WATCH.format(write))

    def kill_at(self, nth: int) -> None:
        """Start counting at 0, and end the connection in its ``nth`` write."""
        self._database.run("UPDATE killer SET nth = %s", (nth,))
        self._database.run("ALTER SEQUENCE killer_writes RESTART")

    @property
    def has_killed(self) -> bool:
        """Whether the write was reached."""
        [(reached,)] = self._database.run("SELECT is_called AND last_value >= nth FROM killer_writes, killer")
        return bool(reached)


@contextlib.asynccontextmanager
async def running(*services: Awaitable[object]) -> AsyncIterator[None]:
    """Services that run meanwhile, and must neither fail nor end."""
    tasks = [asyncio.ensure_future(service) for service in services]
    try:
        yield
        assert [task for task in tasks if task.done()] == []
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
