"""The relays of the outbox, and what is paused."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import AliasPath, Field

from relay.console.api.models import ApiModel, ChangeItem, Stamp, Time, Words
from relay.console.api.requests import READING, IdempotencyKey, Operator, change_request
from relay.console.context import ConsoleParts
from relay.console.relays_and_pauses import end_pause, pauses_of_console, relays_of_console, set_pause
from relay.core.pause import PauseScope, PauseTarget
from relay.outbox.admin.relays import differences

router = APIRouter(tags=["fleet"])

_Scope = Literal["all", "type", "prefix"]
_Name = Annotated[Words, Field(description="The event type or prefix; empty for the whole outbox.")]


class RelayItem(ApiModel):
    """One relay as it described itself last."""

    relay_id: str
    version: str
    host: str
    started_at: Stamp
    seen_at: Stamp
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


class RelayItems(ApiModel):
    """The relays, those seen last first."""

    items: list[RelayItem]
    differences: list[str] = Field(description="Settings that must be equal for all relays, and are not.")


class PauseItem(ApiModel):
    """One pause in force."""

    scope: _Scope = Field(validation_alias=AliasPath("target", "scope"))
    name: str = Field(validation_alias=AliasPath("target", "name"))
    until: Stamp | None = Field(description="Null: until an operator resumes it.")
    paused_by: str
    reason: str
    since: Stamp


class PauseItems(ApiModel):
    """The pauses in force."""

    items: list[PauseItem]


class PauseBody(ApiModel):
    """What is paused, and until when."""

    scope: _Scope = Field(examples=["type"])
    name: _Name = Field("", examples=["user.signup"])
    until: Time | None = None
    reason: Words = ""


class ResumeBody(ApiModel):
    """Which pause ends."""

    scope: _Scope = Field(examples=["type"])
    name: _Name = Field("", examples=["user.signup"])
    reason: Words = ""


class ResumeAllBody(ApiModel):
    """Why every pause ends."""

    reason: Words = ""


@router.get("/fleet", dependencies=READING)
def fleet(console: ConsoleParts) -> RelayItems:
    """The relays of this outbox, and where they differ. Needs the extension fleet."""
    members = relays_of_console(console)
    return RelayItems.model_validate({"items": members, "differences": differences(members)})


@router.get("/pauses", dependencies=READING)
def pauses(console: ConsoleParts) -> PauseItems:
    """What is paused now. Needs the extension pause."""
    return PauseItems.model_validate({"items": pauses_of_console(console)})


@router.post("/pauses")
def pause_events(
    console: ConsoleParts, identity: Operator, body: PauseBody, idempotency_key: IdempotencyKey = None
) -> ChangeItem:
    """Hold events back until a time, or until an operator resumes them. What relays have claimed is delivered."""
    target = PauseTarget(PauseScope(body.scope), body.name)
    request = change_request(identity, idempotency_key, body.reason)
    return ChangeItem.model_validate(set_pause(console, target, body.until, request))


@router.post("/pauses/resume")
def resume_events(
    console: ConsoleParts, identity: Operator, body: ResumeBody, idempotency_key: IdempotencyKey = None
) -> ChangeItem:
    """End the pause of exactly this target; other pauses stay in force."""
    target = PauseTarget(PauseScope(body.scope), body.name)
    request = change_request(identity, idempotency_key, body.reason)
    return ChangeItem.model_validate(end_pause(console, target, request))


@router.post("/pauses/resume-all")
def resume_everything(
    console: ConsoleParts, identity: Operator, body: ResumeAllBody, idempotency_key: IdempotencyKey = None
) -> ChangeItem:
    """End every pause. The change's `events` counts the pauses that ended."""
    request = change_request(identity, idempotency_key, body.reason)
    return ChangeItem.model_validate(end_pause(console, None, request))
