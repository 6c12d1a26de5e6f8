"""What a database user is for; ``relay-cli roles`` makes its roles, ``relay-cli check --for`` examines one."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a job or an application works as. ``relay.postgres.roles`` has the database's roles for each."""

    WRITER = "writer"
    CONSUMER = "consumer"
    RELAY = "relay"
    PRUNE = "prune"
    READER = "reader"
    OPERATOR = "operator"
    CONSOLE = "console"
    MIGRATE = "migrate"
    DELIVERYLOG = "deliverylog"
    EVENTSTORE = "eventstore"
    SPARK = "spark"
