"""Files of tokens and users for tests, with hashes that cost no time."""

from __future__ import annotations

from pathlib import Path

from relay.console.access.passwords import Cost, hash_password, hash_token
from relay.console.access.roles import AccessRole

CHEAP = Cost(ln=1, r=1, p=1)
PASSWORD = "a password of this test"


def token(name: str) -> str:
    """A token that is long enough, for one name."""
    return f"openoutbox_{name}".ljust(40, "x")


def token_line(role: AccessRole | str, name: str) -> str:
    return f"{role} {name} {hash_token(token(name))}\n"


def user_line(role: AccessRole | str, name: str, password: str = PASSWORD, cost: Cost = CHEAP) -> str:
    return f"{role} {name} {hash_password(password, cost)}\n"


def tokens_file(folder: Path) -> Path:
    """One token for each role, named like it."""
    path = folder / "tokens"
    path.write_text("".join(token_line(role, f"{role}-token") for role in AccessRole))
    return path


def users_file(folder: Path) -> Path:
    """One user for each role, named like it."""
    path = folder / "users"
    path.write_text("".join(user_line(role, f"{role}-user") for role in AccessRole))
    return path
