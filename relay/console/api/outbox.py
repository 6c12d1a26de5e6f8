"""The outbox as a whole: statistics, and dead letters by type and error."""

from __future__ import annotations

from fastapi import APIRouter

from relay.console.api.models import DeadGroupItem, DeadGroupItems, Statistics
from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.outbox.admin.overview import MOST_DEAD, dead_groups, read_backlog

router = APIRouter(tags=["outbox"])


@router.get("/stats")
def statistics(console: ConsoleParts, identity: Reader) -> Statistics:
    """The backlog in figures."""
    del identity
    figures = read_backlog(console.url, console.table)
    return Statistics.model_validate({**figures.backlog.answer(), "in_flight_count": figures.in_flight})


@router.get("/dead-letters")
def dead_letters(console: ConsoleParts, identity: Reader) -> DeadGroupItems:
    """Dead events by type and error. Of very many dead events the newest are counted."""
    del identity
    groups = dead_groups(console.url, console.table)
    examined = groups[0].examined if groups else 0
    items = [DeadGroupItem.of(group) for group in groups]
    complete = examined < MOST_DEAD and sum(group.events for group in groups) == examined
    return DeadGroupItems(items=items, examined=examined, complete=complete)
