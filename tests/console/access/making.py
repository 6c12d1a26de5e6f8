"""Files of tokens for tests."""

from __future__ import annotations

from pathlib import Path

from relay.console.access.access_role import AccessRole
from relay.console.access.tokens import hash_token


def token(name: str) -> str:
    """A token that is long enough, for one name."""
    return f"openoutbox_{name}".ljust(40, "x")


def token_line(role: AccessRole | str, name: str) -> str:
    return f"{role} {name} {hash_token(token(name))}\n"


def tokens_file(folder: Path) -> Path:
    """One token for each role, named like it."""
    path = folder / "tokens"
    path.write_text("".join(token_line(role, f"{role}-token") for role in AccessRole))
    return path
