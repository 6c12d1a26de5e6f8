"""The connections of one relay to its outbox. Making them connects to nothing; raises ConfigError for an invalid URL.

Those of claims and of settles prepare their statements where no pooler stands between (``relay.postgres.prepared``).
Used by ``PostgresOutbox``, which shares the generation: a failover that one of them sees replaces them all.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from relay.outbox.outbox_options import PostgresOptions, application_name
from relay.postgres.connect import DeadlineConnection, Generation, read_committed
from relay.postgres.prepared import Prepared
from relay.postgres.url import connection_parameters

_CHECK: Final = "relay-cli check says what is missing, and how to add it"


class OutboxConnections(NamedTuple):
    """None of them waits for another."""

    claiming: DeadlineConnection
    settling: DeadlineConnection
    """Renews, too."""
    housekeeping: DeadlineConnection
    spare: DeadlineConnection
    """For a ping while the housekeeping waits; closed after it."""
    slow: DeadlineConnection


def connections(options: PostgresOptions, generation: Generation) -> OutboxConnections:
    """Those of one relay."""
    parameters = connection_parameters(options.url, application_name(options.relay_id))
    prepared = Prepared(options.prepared)
    claims = prepared.session("walk")
    return OutboxConnections(
        *(
            DeadlineConnection(
                parameters,
                options.statement_timeout,
                generation,
                schema_hint=_CHECK,
                on_connect=on_connect,
                recover=prepared.recover,
            )
            for on_connect in (claims, prepared.session(), *[read_committed] * 3)
        )
    )
