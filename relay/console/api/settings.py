"""What the relays run with."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from relay.console.api.fleet import lacking
from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.console.fleet import settings_of_console
from relay.outbox.admin.fleet import compared_settings

router = APIRouter(tags=["fleet"])


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SettingItem(_Model):
    """The value of one variable."""

    value: str | None = Field(description="As written in the environment, secrets masked; null when it is unset.")
    changed: bool = Field(description="Whether it is another value than the default.")


class RelaySettingItem(_Model):
    """One relay."""

    relay_id: str
    host: str
    version: str
    living: bool
    settings: dict[str, SettingItem] = Field(description="By the name of the variable.")


class DifferingValue(_Model):
    """One of the values, and who runs with it."""

    value: str | None
    relays: list[str]


class SettingDifference(_Model):
    """A variable that living relays have different values of."""

    name: str
    values: list[DifferingValue]


class RelaySettingItems(_Model):
    """What the relays run with, the living ones first."""

    items: list[RelaySettingItem]
    differences: list[SettingDifference]


@router.get("/settings")
def list_relay_settings(console: ConsoleParts, identity: Reader) -> RelaySettingItems:
    """What each relay runs with, secrets masked. Needs the extension fleet."""
    del identity
    relays = settings_of_console(console)
    if relays is None:
        raise lacking(console.table, "fleet")
    items = []
    for relay in relays:
        settings = {name: SettingItem(**setting._asdict()) for name, setting in relay.settings.items()}
        items.append(RelaySettingItem(**{**relay._asdict(), "settings": settings}))
    differing = [
        SettingDifference(
            name=each.name, values=[DifferingValue(value=one.value, relays=one.relays) for one in each.values]
        )
        for each in compared_settings(relays)
        if each.differs
    ]
    return RelaySettingItems(items=items, differences=differing)
