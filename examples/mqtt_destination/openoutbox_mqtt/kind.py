"""The row of MQTT, as the entry point ``openoutbox.destinations`` names it. Imports no client."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from relay.brokers.kinds import DestinationConfig, DestinationKind
from relay.core.durations import parse_duration
from relay.core.errors import ConfigError
from relay.core.ports import Publisher


def build(target: DestinationConfig) -> Publisher:
    """Make the publisher. Raises ConfigError for a URL or variable that can never work; connects nowhere."""
    from openoutbox_mqtt.publisher import MqttPublisher
    from openoutbox_mqtt.session import Address

    url = urlsplit(target.url)
    try:
        host, port = url.hostname, url.port
        timeout = parse_duration(target.variables.get("MQTT_TIMEOUT") or "10s")
    except ValueError as error:
        raise ConfigError(f"PUBLISHER_URL or MQTT_TIMEOUT of {target.name}: {error}") from None
    if not host:
        raise ConfigError(f"PUBLISHER_URL of {target.name} has no host; write mqtt://host:1883")
    tls = url.scheme == "mqtts"
    address = Address(
        host, port or (8883 if tls else 1883), unquote(url.username or ""), unquote(url.password or ""), tls
    )
    return MqttPublisher(address, timeout)


MQTT = DestinationKind(
    name="mqtt",
    title="MQTT",
    server="an MQTT broker",
    schemes=("mqtt", "mqtts"),
    example="mqtt://host:1883",
    noun="topic",
    port=1883,
    prefixes=("MQTT_",),
    build=build,
)
