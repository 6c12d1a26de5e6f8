"""The statements of one write: the files under ``sql/spark`` with the names of its outbox, schema, table and role.

Only the names travel to the executors; the text is read there from the package, which may be a wheel as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

from relay.postgres.sql import Name, TableName, statement, without_parameters

DEFAULT_SCHEMA: Final = "openoutbox_spark"
"""The schema of the ledgers and staging tables, unless an option names another one."""
_STAGE: Final = "stage_00"
_ROLE: Final = "spark_role"
_SETUP: Final = ("01_schema", "02_runs", "03_epochs", "04_job", "05_replays", "06_replayed")
GRANTS: Final = {
    "write": ("01_outbox", "02_schema", "03_runs"),
    "archive": ("archive/01_outbox", "archive/02_lock"),
    "replay": ("replay/01_outbox", "replay/02_schema", "replay/03_replays", "replay/04_replayed"),
}
"""What a role is for, and what it is granted."""


@dataclass(frozen=True, slots=True)
class SparkStatements:
    """Names, and the statements with them."""

    outbox: TableName
    schema: str

    @property
    def runs(self) -> str:
        """The ledger's quoted name."""
        return TableName("runs", self.schema).quoted

    def query(self, name: str, stage: str = "", *tags: str) -> LiteralString:
        """One file of ``queries``, for one run's staging table where it names one, in the variant of ``tags``."""
        return self._named(f"queries/{name}", {_STAGE: stage}, tags)

    def setup(self) -> list[LiteralString]:
        """What makes the schema and the ledger, in order; harmless where they are there."""
        return [without_parameters(self._named(f"setup/{name}", {})) for name in _SETUP]

    def grants(self, role: str, purpose: str = "write") -> list[LiteralString]:
        """What lets a role do that by Spark, and nothing more."""
        return [without_parameters(self._named(f"grants/{name}", {_ROLE: role})) for name in GRANTS[purpose]]

    def _named(self, path: str, names: Mapping[str, Name], tags: tuple[str, ...] = ()) -> LiteralString:
        return statement(f"spark/{path}.sql", self.outbox, {DEFAULT_SCHEMA: self.schema, **names}, tags)


def stage_name(run_id: UUID) -> str:
    """The staging table of a run."""
    return f"stage_{run_id.hex}"
