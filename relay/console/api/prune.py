"""Deleting old events: what it would be, and the change that does it, which only an admin may begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from relay.console.access import Identity
from relay.console.api.models import TIME, ApiModel, ChangeItem, Stamp, Time, Words, moment_text
from relay.console.api.requests import READING, Admin, IdempotencyKey, change_request
from relay.console.context import Console, ConsoleParts
from relay.console.problems import invalid_request
from relay.outbox.admin.changes import Change
from relay.outbox.admin.prune import COUNT_MOST, Pruned, PruneOptions, check_rights, preview, prune

router = APIRouter(tags=["outbox"])

_DAY: Final = 86_400.0
_Days = Annotated[float, Query(ge=0, le=36_500, description="Days; 0 leaves that status alone.")]
_AgeInDays = Annotated[float, Field(ge=0, le=36_500)]


class PruneBody(ApiModel):
    """Which old events are deleted."""

    delivered_days: _AgeInDays = Field(7, description="Delete events delivered longer ago than this; 0 keeps them all.")
    dead_days: _AgeInDays = Field(30, description="Delete events dead for longer than this; 0 keeps them all.")
    as_of: Time | None = Field(
        None,
        description="Ages count from this time, such as `at` of a dry run: what reaches the age later is left out.",
    )
    reason: Words = Field("", description="Recorded with the change.", examples=["the disk is nearly full"])
    dry_run: bool = Field(False, description="Count the events, and delete nothing.")


class PrunePreview(ApiModel):
    """What a prune would delete now."""

    delivered: int
    dead: int
    exact: bool = Field(description="False when there are more.")
    at: Stamp = Field(description="The time from which ages were counted; for `as_of`.", examples=[TIME])


@router.get("/prune-preview", dependencies=READING)
def prune_preview(console: ConsoleParts, delivered_days: _Days = 7, dead_days: _Days = 30) -> PrunePreview:
    """How many delivered and dead events are older than these ages."""
    ages = PruneBody.model_validate({"delivered_days": delivered_days, "dead_days": dead_days})
    return PrunePreview.model_validate(counted(console, ages))


@router.post("/prune", status_code=202, responses={200: {"model": PrunePreview, "description": "A dry run."}})
def prune_old_events(
    console: ConsoleParts,
    identity: Admin,
    body: PruneBody,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> ChangeItem | PrunePreview:
    """Delete the delivered and dead events that are older than these ages. The answer is a change to follow.

    It works as `relay-cli prune`: oldest first, in small batches, a fifth of the time while events wait to be sent.
    """
    if body.dry_run:
        check_rights(console.url, console.table)
        response.status_code = 200
        return PrunePreview.model_validate(counted(console, body))
    change = begin_prune(console, identity, body, idempotency_key)
    response.headers["Location"] = f"/api/v1/changes/{change.change_id}"
    return ChangeItem.model_validate(change)


def counted(console: Console, body: PruneBody, most: int = COUNT_MOST) -> Pruned:
    """What a prune would delete now, of each status counted up to ``most``."""
    return preview(console.url, console.table, _options(body), most)


def begin_prune(console: Console, identity: Identity, body: PruneBody, idempotency_key: str | None) -> Change:
    """Record a prune and begin it. Raises RequestProblem without a key, SchemaError without the right to delete."""
    request = change_request(identity, idempotency_key, body.reason)
    ages = {"delivered_days": body.delivered_days, "dead_days": body.dead_days}
    described: dict[str, object] = {name: days for name, days in ages.items() if days}
    if not described:
        raise invalid_request("prune: both ages are 0, which deletes nothing")
    if body.as_of is not None:
        described["as_of"] = moment_text(body.as_of)
    check_rights(console.url, console.table)
    counts = counted(console, body)
    options = replace(_options(body), as_of=counts.at)

    def work(on_batch: Callable[[int], None], *, change_id: UUID) -> int:  # noqa: ARG001 - nothing is kept of it
        return prune(console.url, console.table, options, lambda done: on_batch(done.total)).total

    return console.jobs.start("prune", work, request, described, counts.total)


def _options(body: PruneBody) -> PruneOptions:
    return PruneOptions(delivered_age=body.delivered_days * _DAY, dead_age=body.dead_days * _DAY, as_of=body.as_of)
