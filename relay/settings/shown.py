"""The settings as every user may see them: this module alone decides which values are secret.

A password never shows, whatever holds it: a variable of a secret kind is masked as a whole, a URL as everywhere
(``relay.core.secrets``). Of the variables of OpenTelemetry those show that hold no header.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final, NamedTuple

from pydantic import SecretStr

from relay.brokers import kinds
from relay.core.durations import format_duration
from relay.core.secrets import MASK, mask_url
from relay.settings.address import Address
from relay.settings.describe import describe
from relay.settings.settings import Settings
from relay.settings.variables import GROUPS, Admitting, Variables

_OPEN_OTEL: Final = ("_EXPORTER", "_PROTOCOL", "_SERVICE_NAME", "_SAMPLER", "_SAMPLER_ARG", "_TIMEOUT", "_INTERVAL")
"""How the names of OTEL_* variables end whose values are no secret."""


class ShownSetting(NamedTuple):
    """The value of one variable."""

    value: str | None
    """As a user would write it, secrets masked; None when it is unset."""
    changed: bool
    """Whether it is another value than the default."""


def shown_settings(settings: Settings) -> dict[str, ShownSetting]:
    """What a relay runs with, by variable; not what only the console reads."""
    data = dict(settings)
    shown = {}
    for group in GROUPS:
        if group is Admitting:
            continue
        for name in group.model_fields:
            value = data[name]
            shown[name.upper()] = ShownSetting(_text(name.upper(), value), value != _default(name, data))
    otel = {name: ShownSetting(_otel_text(name, value), True) for name, value in sorted(settings.otel.items())}
    return shown | otel


def settings_json(settings: Settings) -> str:
    """``shown_settings`` as a JSON object: ``{"BATCH_SIZE": {"value": "500", "changed": true}}``."""
    return json.dumps({name: setting._asdict() for name, setting in shown_settings(settings).items()})


def _default(name: str, data: dict[str, Any]) -> Any:  # noqa: ANN401 - of any type
    field = Variables.model_fields[name]
    if field.default_factory is not None:  # depends on other values
        return field.get_default(call_default_factory=True, validated_data=data)
    return getattr(_defaults(), name)


@cache
def _defaults() -> Variables:
    return Variables()


@cache
def _kinds() -> dict[str, str]:
    return {row.variable: row.kind for row in describe()}


def _text(name: str, value: object) -> str | None:  # noqa: PLR0911 - a return for each kind
    match value:
        case None:
            return None
        case SecretStr():
            return _url_text(value.get_secret_value()) if name.endswith("_URL") else MASK
        case bool():
            return str(value).lower()
        case float() if _kinds()[name] == "duration":
            return format_duration(value)
        case Address():
            return f"{value.host}:{value.port}"
        case tuple():
            return ", ".join(map(str, value))
        case dict():
            return json.dumps(value)
    return str(value)


def _url_text(url: str) -> str:
    """A URL without its secrets; the path of a webhook may be one, and so may a text that names no port."""
    if ":" not in url:
        return MASK
    shown = mask_url(url)
    scheme, _, rest = shown.partition("://")
    authority, _, path = rest.partition("/")
    kind = kinds.of_url(url)
    return f"{scheme}://{authority}/{MASK}" if path and kind is not None and kind.secret_path else shown


def _otel_text(name: str, value: str) -> str:
    if name.endswith("_ENDPOINT"):
        return mask_url(value)
    return value if name.endswith(_OPEN_OTEL) else MASK
