"""The outbox as a whole: statistics, dead letters by type and error, and what pruning would delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from relay.console.api.models import DeadGroupItem, DeadGroupItems, PrunePreview, Statistics
from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.outbox.admin.overview import MOST_DEAD, dead_groups, read_backlog
from relay.outbox.admin.prune import PruneOptions, preview

router = APIRouter(tags=["outbox"])

_DAY = 86_400.0
_Days = Annotated[float, Query(ge=0, le=36_500, description="Days; 0 leaves that status alone.")]


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
    return DeadGroupItems(items=items, examined=examined, complete=examined < MOST_DEAD)


@router.get("/prune-preview")
def prune_preview(
    console: ConsoleParts, identity: Reader, delivered_days: _Days = 7, dead_days: _Days = 30
) -> PrunePreview:
    """How many delivered and dead events are older than these ages."""
    del identity
    options = PruneOptions(delivered_age=delivered_days * _DAY, dead_age=dead_days * _DAY)
    counts = preview(console.url, console.table, options)
    return PrunePreview(delivered=counts.delivered, dead=counts.dead, exact=counts.exact)
