"""The state machine of an outbox row (docs/reference/conformance.md#states), as data.

    PENDING ──claim──▶ DELIVERING ──deliver──▶ DELIVERED
       ▲                 │  │  ▲ │                │
       ├──retry, release─┘  │  └─┘ renew          │
       ├──reap──────────────┤                     │
       │                    └──bury, reap──▶ DEAD │
       └───────────── replay (operator) ◀────┴────┘

``test_invariants`` compares the statements under ``sql/`` with this table.
"""

from __future__ import annotations

from enum import StrEnum

from relay.core.event import Status


class Transition(StrEnum):
    """Everything that may happen to a row after its insertion."""

    CLAIM = "claim"
    RENEW = "renew"
    DELIVER = "deliver"
    RETRY = "retry"
    BURY = "bury"
    RELEASE = "release"
    REAP = "reap"
    REPLAY = "replay"


ALLOWED: dict[tuple[Status, Transition], frozenset[Status]] = {
    (Status.PENDING, Transition.CLAIM): frozenset({Status.DELIVERING}),
    (Status.DELIVERING, Transition.RENEW): frozenset({Status.DELIVERING}),
    (Status.DELIVERING, Transition.DELIVER): frozenset({Status.DELIVERED}),
    (Status.DELIVERING, Transition.RETRY): frozenset({Status.PENDING}),
    (Status.DELIVERING, Transition.BURY): frozenset({Status.DEAD}),
    (Status.DELIVERING, Transition.RELEASE): frozenset({Status.PENDING}),
    (Status.DELIVERING, Transition.REAP): frozenset({Status.PENDING, Status.DEAD}),
    (Status.DELIVERED, Transition.REPLAY): frozenset({Status.PENDING}),
    (Status.DEAD, Transition.REPLAY): frozenset({Status.PENDING}),
}
"""The states that each transition may lead to; a pair that is absent never happens."""
