"""What a relay tells the other relays of its table about itself: where it delivers, and its settings."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterable

from relay.app.destinations import read_named, read_plan
from relay.app.publishers import options_of
from relay.brokers import kinds
from relay.core.heartbeats import ROUTES
from relay.outbox.relay_row import OutboxFleet, RelayIdentity
from relay.outbox.storage import PostgresOutbox
from relay.routing.reported import routes_digest, routes_text
from relay.settings.settings import Settings
from relay.settings.shown import settings_json
from relay.version import __version__

_DIGITS = 12


def build_fleet(settings: Settings, storage: PostgresOutbox) -> OutboxFleet:
    """The relay's row in the list of the table's relays."""
    ordering: str = settings.ordering
    if ordering == "key" and settings.ordering_on_dead == "block":
        ordering = "key, block"
    identity = RelayIdentity(
        relay_id=settings.relay_id,
        version=__version__,
        host=socket.gethostname(),
        destination_type=settings.publisher_type if settings.destinations_file is None else "several",
        destination=fingerprint(settings),
        lease_timeout=settings.lease_timeout,
        ordering=ordering,
        on_delivered=settings.on_delivered,
        settings=reported_settings(settings),
    )
    return OutboxFleet(storage, settings.storage_table_name, identity, allow_mixed=settings.fleet_allow_mixed)


def reported_settings(settings: Settings) -> str:
    """What the relay runs with, and its routes, by which a process that is no relay explains an event."""
    plan = read_plan(settings)
    more: dict[str, dict[str, object]] = {}
    if plan.routes is not None:
        more[ROUTES] = {"value": routes_text(plan.routes), "changed": False, "digest": routes_digest(plan.routes)}
    if plan.transactions:  # also of one destination of a file
        more["KAFKA_TRANSACTIONS"] = {"value": "true", "changed": True}
    return json.dumps({**json.loads(settings_json(settings)), **more})


def fingerprint(settings: Settings) -> str:
    """A digest of each server of each destination, for ``same_destination``."""
    parts = [digest for own in read_named(settings).destinations.values() for digest in _digests(own)]
    return " ".join(sorted(set(parts)))


def _digests(settings: Settings) -> list[str]:
    """A digest of each server with type and path. No login, and no option of the client."""
    kind, url = settings.publisher_type, settings.publisher_url
    row = kinds.find(kind)
    if row is not None and row.receiver:
        return _hashed(kind, [kinds.load(row.receiver)(options_of(settings))])
    text = url.get_secret_value().strip() if url is not None and row is not None else ""
    parts = [_address_and_path(part) for part in text.partition("?")[0].split(",") if part.strip()]
    # The path ends the last server and belongs to all: a database, or the name of a Sentinel's primary.
    path = next((path for _, path in reversed(parts) if path), "")
    if row is not None and row.apart is not None:
        path = row.apart(settings, path, text.partition("?")[2])
    port = "" if row is None else str(row.port or "")
    servers = {f"{_address(address, port)}/{path}" for address, _ in parts} or {""}
    return _hashed(kind, servers)


def _hashed(kind: str, servers: Iterable[str]) -> list[str]:
    return [hashlib.sha256(f"{kind}\n{one}".encode()).hexdigest()[:_DIGITS] for one in servers]


def _address_and_path(part: str) -> tuple[str, str]:
    """Address and path of one server of a URL; database 0 is no path."""
    address, _, path = part.strip().rpartition("://")[2].rpartition("@")[2].partition("/")
    path = path.strip("/")
    return address, "" if path == "0" else path.removesuffix("/0")


def _address(address: str, port: str) -> str:
    """Host and port in one spelling."""
    address = address.lower()
    return address if ":" in address.rpartition("]")[2] else f"{address}:{port}"
