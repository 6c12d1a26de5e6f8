"""The outbox as a whole: statistics, and dead letters by type and error."""

from __future__ import annotations

from fastapi import APIRouter

from relay.console.api.models import DeadGroupItems, Statistics
from relay.console.api.requests import READING
from relay.console.context import ConsoleParts
from relay.outbox.admin.overview import MOST_DEAD, dead_groups, read_backlog

router = APIRouter(tags=["outbox"])


@router.get("/stats", dependencies=READING)
def statistics(console: ConsoleParts) -> Statistics:
    """The backlog in figures."""
    figures = read_backlog(console.url, console.table)
    return Statistics.model_validate({**figures.backlog.answer(), "in_flight_count": figures.in_flight})


@router.get("/dead-letters", dependencies=READING)
def dead_letters(console: ConsoleParts) -> DeadGroupItems:
    """Dead events by type and error. Of very many dead events the newest are counted."""
    groups = dead_groups(console.url, console.table)
    examined = groups[0].examined if groups else 0
    complete = examined < MOST_DEAD and sum(group.events for group in groups) == examined
    return DeadGroupItems.model_validate({"items": groups, "examined": examined, "complete": complete})
