"""What a database user is for; ``relay-cli check --for`` examines one of these."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The roles of ``deploy/postgres/roles.sql`` that a job works as."""

    RELAY = "relay"
    PRUNE = "prune"
    READER = "reader"
    OPERATOR = "operator"
    CONSOLE = "console"
    SPARK = "spark"
    EVENTSTORE = "eventstore"
    DELIVERYLOG = "deliverylog"
