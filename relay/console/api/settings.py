"""What the relays run with."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from relay.console.api.models import ApiModel
from relay.console.api.requests import READING
from relay.console.context import ConsoleParts
from relay.console.relays_and_pauses import existing, settings_of_console
from relay.outbox.admin.relays import compared_settings

router = APIRouter(tags=["fleet"])


class SettingItem(ApiModel):
    """The value of one variable."""

    value: str | None = Field(description="As written in the environment, secrets masked; null when it is unset.")
    changed: bool = Field(description="Whether it is another value than the default.")


class RelaySettingItem(ApiModel):
    """One relay."""

    relay_id: str
    host: str
    version: str
    living: bool
    settings: dict[str, SettingItem] = Field(description="By the name of the variable.")


class DifferingValue(ApiModel):
    """One of the values, and who runs with it."""

    value: str | None
    relays: list[str]


class SettingDifference(ApiModel):
    """A variable that living relays have different values of."""

    name: str
    values: list[DifferingValue]


class RelaySettingItems(ApiModel):
    """What the relays run with, the living ones first."""

    items: list[RelaySettingItem]
    differences: list[SettingDifference]


@router.get("/settings", dependencies=READING)
def list_relay_settings(console: ConsoleParts) -> RelaySettingItems:
    """What each relay runs with, secrets masked. Needs the extension fleet."""
    relays = existing(settings_of_console(console), console, "fleet")
    differing = [each for each in compared_settings(relays) if each.differs]
    return RelaySettingItems.model_validate({"items": relays, "differences": differing})
