"""The project's SQL files, those of ``openoutbox`` among them, by the paths that ``relay.postgres.sql`` takes."""

from __future__ import annotations

from pathlib import Path

from relay.postgres.sql import sql_files, statement_names
from tests.support.paths import ROOT

SQL_FOLDERS = (ROOT / "sql", ROOT / "client" / "openoutbox" / "sql")

__all__ = ["SQL_FOLDERS", "sql_files", "sql_path", "sql_statements"]


def sql_path(file: str) -> Path:
    """Where a file lies."""
    (path,) = [folder / file for folder in SQL_FOLDERS if (folder / file).exists()]
    return path


def sql_statements(folder: str = "") -> list[str]:
    """Every named statement below ``folder``, for example ``outbox/claim:claim``, and every file without names."""
    paths: list[str] = []
    for file in sql_files(folder):
        stem = file.removesuffix(".sql")
        paths += [f"{stem}:{name}" for name in statement_names(stem)] or [file]
    return paths
