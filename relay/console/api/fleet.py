"""The relays of the outbox, and what is paused."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from relay.console.api.models import ChangeItem, Time, Words, moment_text
from relay.console.api.requests import IdempotencyKey, Operator, Reader, change_request
from relay.console.context import ConsoleParts
from relay.console.fleet import end_every_pause, end_pause, pauses_of_console, relays_of_console, set_pause
from relay.console.problems import RequestProblem
from relay.core.pause import PauseScope, PauseTarget
from relay.outbox.admin.fleet import differences

router = APIRouter(tags=["fleet"])

_Scope = Literal["all", "type", "prefix"]
_Name = Annotated[Words, Field(description="The event type or prefix; empty for the whole outbox.")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RelayItem(_Model):
    """One relay as it described itself last."""

    relay_id: str
    version: str
    host: str
    started_at: str
    seen_at: str
    living: bool
    state: str
    reason: str
    destination_type: str
    lease_timeout: float
    ordering: str
    on_delivered: str
    delivered_per_second: float
    failed_per_second: float
    in_flight: int
    pauses: int


class RelayItems(_Model):
    """The relays, those seen last first."""

    items: list[RelayItem]
    differences: list[str] = Field(description="Settings that must be equal for all relays, and are not.")


class PauseItem(_Model):
    """One pause in force."""

    scope: _Scope
    name: str
    until: str | None = Field(description="Null: until an operator resumes it.")
    paused_by: str
    reason: str
    since: str


class PauseItems(_Model):
    """The pauses in force."""

    items: list[PauseItem]


class PauseBody(_Model):
    """What is paused, and until when."""

    scope: _Scope = Field(examples=["type"])
    name: _Name = Field("", examples=["user.signup"])
    until: Time | None = None
    reason: Words = ""


class ResumeBody(_Model):
    """Which pause ends."""

    scope: _Scope = Field(examples=["type"])
    name: _Name = Field("", examples=["user.signup"])
    reason: Words = ""


class ResumeAllBody(_Model):
    """Why every pause ends."""

    reason: Words = ""


@router.get("/fleet")
def fleet(console: ConsoleParts, identity: Reader) -> RelayItems:
    """The relays of this outbox, and where they differ. Needs the extension fleet."""
    del identity
    members = relays_of_console(console)
    if members is None:
        raise lacking(console.table, "fleet")
    items = []
    for member in members:
        values = {name: value for name, value in member._asdict().items() if name in RelayItem.model_fields}
        times = {name: moment_text(values[name]) for name in ("started_at", "seen_at")}
        items.append(RelayItem.model_validate({**values, **times}))
    return RelayItems(items=items, differences=differences(members))


@router.get("/pauses")
def pauses(console: ConsoleParts, identity: Reader) -> PauseItems:
    """What is paused now. Needs the extension pause."""
    del identity
    listed = pauses_of_console(console)
    if listed is None:
        raise lacking(console.table, "pause")
    items = [
        PauseItem(
            scope=each.target.scope.value,
            name=each.target.name,
            until=moment_text(each.until),
            paused_by=each.paused_by,
            reason=each.reason,
            since=moment_text(each.since),
        )
        for each in listed
    ]
    return PauseItems(items=items)


@router.post("/pauses")
def pause_events(
    console: ConsoleParts, identity: Operator, body: PauseBody, idempotency_key: IdempotencyKey = None
) -> ChangeItem:
    """Hold events back until a time, or until an operator resumes them. What relays have claimed is delivered."""
    target = PauseTarget(PauseScope(body.scope), body.name)
    request = change_request(identity, idempotency_key, body.reason)
    if pauses_of_console(console) is None:
        raise lacking(console.table, "pause")
    return ChangeItem.of(set_pause(console, target, body.until, request))


@router.post("/pauses/resume")
def resume_events(
    console: ConsoleParts, identity: Operator, body: ResumeBody, idempotency_key: IdempotencyKey = None
) -> ChangeItem:
    """End the pause of exactly this target; other pauses stay in force."""
    target = PauseTarget(PauseScope(body.scope), body.name)
    request = change_request(identity, idempotency_key, body.reason)
    if pauses_of_console(console) is None:
        raise lacking(console.table, "pause")
    return ChangeItem.of(end_pause(console, target, request))


@router.post("/pauses/resume-all")
def resume_everything(
    console: ConsoleParts, identity: Operator, body: ResumeAllBody, idempotency_key: IdempotencyKey = None
) -> ChangeItem:
    """End every pause. The change's `events` counts the pauses that ended."""
    request = change_request(identity, idempotency_key, body.reason)
    if pauses_of_console(console) is None:
        raise lacking(console.table, "pause")
    return ChangeItem.of(end_every_pause(console, request))


def lacking(table: object, extension: str) -> RequestProblem:
    """The problem of a table without an extension."""
    advice = f"run as the owner: relay-cli migrate --table {table} --with {extension}"
    return RequestProblem(503, "extension-missing", f"table {table} lacks the extension {extension}; {advice}")
