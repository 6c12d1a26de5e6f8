"""No request goes to an address that is not public, unless it is allowed."""

from __future__ import annotations

import asyncio
import socket

import pytest

from relay.brokers.http.addresses import literal_refusal, special_kind, usable_addresses
from relay.core.errors import BrokerUnreachable

SPECIAL = {
    "127.0.0.1": "loopback",
    "127.8.9.10": "loopback",
    "::1": "loopback",
    "0.0.0.0": "unspecified",
    "::": "unspecified",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "192.168.1.1": "private",
    "fd00:ec2::254": "private",
    "169.254.169.254": "link-local",
    "fe80::1%eth0": "link-local",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "255.255.255.255": "reserved",
    "240.0.0.1": "reserved",
    "100.64.0.1": "special",
    "192.0.2.1": "private",
    "168.63.129.16": "special",
    "192.88.99.1": "special",
    "3fff::1": "special",
    "::ffff:168.63.129.16": "special",
    "fec0::1": "site-local",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:10.0.0.1": "private",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::a9fe:a9fe": "link-local",
    "2002:7f00:1::": "loopback",
    "::127.0.0.1": "reserved",
}
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]


@pytest.mark.parametrize(("address", "kind"), SPECIAL.items())
def test_a_special_address_is_named(address: str, kind: str) -> None:
    assert special_kind(address) == kind
    assert literal_refusal(address) == (
        f"{address} is a {kind} address; no request is sent there unless HTTP_ALLOW_PRIVATE=true"
    )


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_taken(address: str) -> None:
    assert special_kind(address) is None
    assert literal_refusal(address) is None


def test_a_name_is_no_literal() -> None:
    assert literal_refusal("localhost") is None


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
async def test_a_name_and_every_spelling_of_loopback_are_refused_once_resolved(host: str) -> None:
    with pytest.raises(BrokerUnreachable, match=r"(loopback).*HTTP_ALLOW_PRIVATE"):
        await usable_addresses(host, 80, allow_private=False)
    assert await usable_addresses(host, 80, allow_private=True)


async def test_of_several_addresses_the_public_ones_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(*_: object, **__: object) -> list[tuple[object, ...]]:
        inet, stream = socket.AF_INET, socket.SOCK_STREAM
        return [(inet, stream, 6, "", ("10.0.0.1", 80)), (inet, stream, 6, "", ("8.8.8.8", 80))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    assert await usable_addresses("both.example", 80, allow_private=False) == [(socket.AF_INET, ("8.8.8.8", 80))]
