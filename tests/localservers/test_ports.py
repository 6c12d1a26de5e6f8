"""Ports for servers."""

from __future__ import annotations

from pathlib import Path

from relay.localservers.process import free_ports


def test_no_client_is_given_a_servers_port() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split())
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert [port for port in ports if first <= port <= last] == []
