"""What is broken, since when, and what to do."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import Field
from pydantic_core import to_json

from relay.console.api.models import ApiModel, Stamp
from relay.console.api.requests import READING
from relay.console.context import ConsoleParts

router = APIRouter(tags=["outbox"])


class FindingItem(ApiModel):
    """One thing that is wrong with the outbox as a whole."""

    level: Literal["warning", "error"]
    subject: str = Field(description="What it is about, in one word.", examples=["pause"])
    message: str
    advice: str


class CauseItem(ApiModel):
    """Dead and retrying events that one cause holds."""

    cause: str = Field(
        description="Its name, for `cause` of a search and of a change.", examples=["HTTP_503:1f0a9c22b7"]
    )
    code: str = Field(description="What `last_error` says before its first colon; for `error_code`.")
    error: str = Field(description="The rest, with numbers, ids and quoted parts folded to `#`.")
    message: str = Field(description="The error of the event that failed last.")
    dead: int
    retrying: int
    types: dict[str, int] = Field(description="How many events of each type, the largest number first.")
    keys: int
    first: Stamp
    last: Stamp
    sample: str = Field(description="The id of the event that failed last.")
    minutes: dict[str, int] = Field(description="How many of them failed last in which minute of the last hour.")
    step: str = Field(description="What to do.")


class CauseItems(ApiModel):
    """What holds up events, and why events fail, the cause with the most events first."""

    findings: list[FindingItem]
    causes: list[CauseItem]
    complete: bool = Field(description="False when more events fail than were read.")
    sample: str = Field(description="What was read then, as a sentence; empty when complete.")


@router.get("/causes", dependencies=READING, response_model=CauseItems)
def list_causes(console: ConsoleParts) -> Response:
    """What is broken, since when and what to do. Of very many dead events the newest are read."""
    state, failing = console.readings.with_causes(console.readings.state)
    answer = {"findings": [each.answer() for each in state.findings], **failing.answer()}
    return Response(to_json(answer), media_type="application/json")  # to validate a thousand causes costs five times it
