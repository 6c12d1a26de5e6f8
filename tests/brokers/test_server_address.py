"""Hosts and ports of PUBLISHER_URL, as the publishers and ``relay-cli check`` read them."""

from __future__ import annotations

import pytest

from relay.brokers.greeting import what_listens
from relay.brokers.server_address import ServerAddress, read_address, read_addresses
from relay.core.errors import ConfigError


@pytest.mark.parametrize(
    ("part", "address"),
    [
        ("host", ServerAddress("host", 6379)),
        (" host:1 ", ServerAddress("host", 1)),
        ("[fe80::1%eth0]:65535", ServerAddress("fe80::1%eth0", 65_535)),
        ("[::1]", ServerAddress("::1", 6379)),
        ("host:65536", None),
        ("two words", None),
        ("a:b", None),
        ("", None),
    ],
)
def test_an_address_is_a_host_with_a_port_or_without(part: str, address: ServerAddress | None) -> None:
    assert read_address(part, 6379) == address


def test_of_a_list_with_one_that_is_none_nothing_is_used() -> None:
    assert list(map(str, read_addresses("a, b:2", 1, "write host:port"))) == ["a:1", "b:2"]
    with pytest.raises(ConfigError, match="write host:port"):
        read_addresses("a,b:b", 1, "write host:port")


async def test_nothing_is_asked_at_a_port_that_there_is_not() -> None:
    assert await what_listens("kafka://127.0.0.1:99999", 9092) == ""
