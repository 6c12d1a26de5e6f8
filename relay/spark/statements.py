"""The statements of one write: the files under ``sql/spark`` with the names of its outbox, schema, table and role.

Only the names travel to the executors, which read the text from the package; it may be a zipped wheel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

from openoutbox.schema import sql_api_functions
from relay.postgres.sql import Name, TableName, statement, statement_names, without_parameters

DEFAULT_SCHEMA: Final = "openoutbox_spark"
"""The schema of the ledgers and staging tables, unless an option names another one."""
_STAGE: Final = "stage_00"
_ROLE: Final = "spark_role"
_PARAMETER: Final = re.compile(r"(?<!%)%\(")


@dataclass(frozen=True, slots=True)
class SparkStatements:
    """The names of one write, and the statements with these names."""

    outbox: TableName
    schema: str = DEFAULT_SCHEMA

    @property
    def runs(self) -> str:
        """The ledger's quoted name."""
        return TableName("runs", self.schema).quoted

    def query(self, path: str, stage: str = "", *tags: str) -> LiteralString:
        """One statement, for example ``runs:open_run``, for a run's staging table, in the variant of ``tags``.

        Send one that has no parameters without values: only then a ``%`` in a name is what it is.
        """
        return self._named(path, {_STAGE: stage}, tags)

    def setup(self) -> list[LiteralString]:
        """The statements that create the schema and the ledgers, in order; each may be repeated."""
        return [self.query(path) for path in _paths("setup", "create")]

    def grants(self, role: str, purpose: str = "write") -> list[LiteralString]:
        """The rights of a role that writes, archives or replays by Spark, and no others."""
        return [self._named(path, {_ROLE: role}) for path in _paths("grants", purpose)]

    def comparing(self, role: str) -> LiteralString:
        """The right of a writing role to have repeats compared, where the function of ``--with sql-api`` exists."""
        names: dict[str, Name] = {"app_role": role, **sql_api_functions(self.outbox)}
        return without_parameters(statement("outbox/grants:writer_same", names=names))

    def _named(self, path: str, names: Mapping[str, Name], tags: tuple[str, ...] = ()) -> LiteralString:
        names = {DEFAULT_SCHEMA: self.schema, **sql_api_functions(self.outbox), **names}
        text = statement(f"spark/{path}", self.outbox, names, tags)
        return text if _PARAMETER.search(text) else without_parameters(text)


def _paths(file: str, prefix: str) -> list[str]:
    """The statements of a file whose names begin with ``prefix``, in the file's order."""
    return [f"{file}:{name}" for name in statement_names(f"spark/{file}") if name.startswith(f"{prefix}_")]


def stage_name(run_id: UUID) -> str:
    """The staging table of a run."""
    return f"stage_{run_id.hex}"
