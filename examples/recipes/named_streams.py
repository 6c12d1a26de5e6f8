"""Streams by category and name, and names that only one account may have."""

import unicodedata
from uuid import UUID, uuid5

from relay.eventstore import EventStore, NewEvent, VersionConflict

NAMESPACE = UUID("7d1c0a52-6f5e-4f0e-9a41-3c2b8d7e6f10")  # this application's own: make one, and never change it


def stream_id(category: str, name: str) -> UUID:
    """The stream of a name within a category. The spelling counts: bring the name into one form first."""
    return uuid5(uuid5(NAMESPACE, category), unicodedata.normalize("NFC", name))


async def claim(store: EventStore, tenant_id: UUID, address: str, account_id: UUID) -> UUID:
    """Give an address to an account, unless another one has it; the account that has it now. Repeatable."""
    name = address.strip().casefold()
    while True:
        newest = await store.read_stream(tenant_id, stream_id("address", name), backward=True, limit=1)
        if newest and newest[0].type == "AddressClaimed":
            return UUID(newest[0].data["account"])
        event = NewEvent("AddressClaimed", {"account": str(account_id)}, {"address": name})
        try:
            await store.append(tenant_id, stream_id("address", name), [event], newest[0].version if newest else 0)
        except VersionConflict:
            continue  # another claim or release was faster: read again
        return account_id


async def release(store: EventStore, tenant_id: UUID, address: str, account_id: UUID) -> None:
    """Free an address, if that account has it. Repeatable."""
    stream = stream_id("address", address.strip().casefold())
    newest = await store.read_stream(tenant_id, stream, backward=True, limit=1)
    if newest and newest[0].type == "AddressClaimed" and newest[0].data["account"] == str(account_id):
        await store.append(tenant_id, stream, [NewEvent("AddressReleased")], newest[0].version)
