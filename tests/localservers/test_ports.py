"""Ports for servers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from relay.localservers.process import free_port, free_ports
from tests.support.paths import ROOT


def test_no_client_is_given_a_servers_port() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split())
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert [port for port in ports if first <= port <= last] == []


def test_a_process_gets_no_port_twice_before_its_server_could_listen() -> None:
    ports = [free_port() for _ in range(500)]
    assert len(set(ports)) == 500


def test_processes_that_share_the_ports_get_none_of_each_other() -> None:
    program = (
        "import sys; from relay.localservers.process import free_port, share_ports; share_ports(int(sys.argv[1]), 4); "
        "print(*(free_port() for _ in range(500)))"
    )
    found = [
        subprocess.run([sys.executable, "-c", program, str(part)], capture_output=True, text=True, check=True, cwd=ROOT)
        for part in range(4)
    ]
    ports = [int(port) for done in found for port in done.stdout.split()]
    assert len(set(ports)) == 2000
