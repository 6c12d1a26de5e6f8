"""The statements of one write: the files under ``sql/spark`` with the names of its outbox, schema, table and role.

Only the names travel to the executors; the text is read there from the package, which may be a wheel as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

from relay.core.sqltext import DEFAULT_TABLE, TableName, quote_identifier
from relay.core.sqlvariants import variant

_TOKENS: Final = re.compile(rf"\b(?:{DEFAULT_TABLE}|openoutbox_spark|stage_00|spark_role)\b")
_SETUP: Final = ("01_schema", "02_runs", "03_epochs", "04_job", "05_replays", "06_replayed")
GRANTS: Final = {
    "write": ("01_outbox", "02_schema", "03_runs"),
    "archive": ("archive/01_outbox", "archive/02_lock"),
    "replay": ("replay/01_outbox", "replay/02_schema", "replay/03_replays", "replay/04_replayed"),
}
"""What a role is for, and what it is granted."""


@dataclass(frozen=True, slots=True)
class Statements:
    """Names, and the statements with them."""

    outbox: TableName
    schema: str

    @property
    def runs(self) -> str:
        """The ledger's quoted name."""
        return TableName("runs", self.schema).quoted

    def query(self, name: str, stage: str = "", *tags: str) -> LiteralString:
        """One file of ``queries``, for one run's staging table where it names one, in the variant that ``tags`` choose.

        It may pass for a literal: the text comes from a file of this project, and the inserted names are quoted.
        """
        return self._named(f"queries/{name}", stage, tags=tags)

    def setup(self) -> list[LiteralString]:
        """What makes the schema and the ledger, in order; harmless where they are there."""
        return [self._named(f"setup/{name}") for name in _SETUP]

    def grants(self, role: str, purpose: str = "write") -> list[LiteralString]:
        """What lets a role do that by Spark, and nothing more."""
        return [self._named(f"grants/{name}", role=role) for name in GRANTS[purpose]]

    def _named(self, path: str, stage: str = "", role: str = "", tags: tuple[str, ...] = ()) -> LiteralString:
        names = {
            DEFAULT_TABLE: self.outbox.quoted,
            "openoutbox_spark": quote_identifier(self.schema),
            "stage_00": quote_identifier(stage),
            "spark_role": quote_identifier(role),
        }
        quoted = {name: text.replace("%", "%%") for name, text in names.items()}  # "%" begins a placeholder
        text = variant(f"spark/{path}.sql", frozenset(tags))
        return _TOKENS.sub(lambda match: quoted[match.group()], text)


def stage_name(run_id: UUID) -> str:
    """The staging table of a run."""
    return f"stage_{run_id.hex}"
