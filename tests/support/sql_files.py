"""What stands under ``sql/``, by the paths that ``relay.postgres.sql.statement`` takes."""

from __future__ import annotations

from relay.postgres.sql import sql_root, statement_names


def sql_files(folder: str = "") -> list[str]:
    """Every file below ``folder``, for example ``outbox/claim.sql``."""
    return sorted(path.relative_to(sql_root()).as_posix() for path in (sql_root() / folder).rglob("*.sql"))


def sql_statements(folder: str = "") -> list[str]:
    """Every named statement below ``folder``, for example ``outbox/claim:claim``, and every file without names."""
    paths: list[str] = []
    for file in sql_files(folder):
        stem = file.removesuffix(".sql")
        paths += [f"{stem}:{name}" for name in statement_names(stem)] or [file]
    return paths
