"""Roles, and the identity that a request acts as."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

LONGEST_NAME: Final = 200
"""Characters of an identity's name; the audit table and the login cookie hold it."""


class AccessRole(IntEnum):
    """What an identity may do. A higher role may also do everything that a lower one may."""

    READER = 1
    """Look at everything but headers, payloads and the responses that brokers sent."""
    OPERATOR = 2
    """Look at payloads too; retry, replay, bury, cancel, pause and resume."""
    ADMIN = 3
    """Everything."""

    @classmethod
    def parse(cls, text: str) -> AccessRole:
        """The role of this name, in lower case. Raises ValueError with what is allowed, without the text."""
        for role in cls:
            if text == str(role):
                return role
        raise ValueError("the role must be reader, operator or admin")

    def __str__(self) -> str:
        """The name as files and messages write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sends a request, by the name that the audit shows, and what that identity may do."""

    name: str
    role: AccessRole


def valid_name(text: str) -> bool:
    """Whether a name can be shown and logged: printable, not empty, not too long."""
    return bool(text) and len(text) <= LONGEST_NAME and text.isprintable() and text == text.strip()
