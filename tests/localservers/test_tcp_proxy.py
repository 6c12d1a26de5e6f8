"""The proxy that fails on purpose does so, and only so."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from relay.localservers.process import free_port
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.waiting import wait_until


class Echo(socketserver.BaseRequestHandler):
    """Says back what it hears."""

    def handle(self) -> None:
        with suppress(OSError):
            while data := self.request.recv(1000):
                self.request.sendall(data)


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with TcpProxy(server.server_address[1]) as proxy:
            yield proxy
        server.shutdown()


def connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=2)


def says(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(1000)


def test_it_lets_everything_pass_and_counts_connections(proxy: TcpProxy) -> None:
    with connect(proxy) as one, connect(proxy) as other:
        assert says(one, b"one") == b"one"
        assert says(other, b"other") == b"other"
        assert proxy.accepted == 2


def test_it_refuses_resets_and_takes_connections_again_on_the_same_port(proxy: TcpProxy) -> None:
    with connect(proxy) as before:
        assert says(before, b"one") == b"one"
        proxy.set(Mode.REFUSE)
        with pytest.raises(ConnectionResetError):
            before.recv(1000)
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        proxy.set(Mode.FLOW)
        with connect(proxy) as after:
            assert says(after, b"two") == b"two"


@pytest.mark.parametrize("how", ["silence", "drop"])
def test_what_falls_silent_stays_open_and_mute(proxy: TcpProxy, how: str) -> None:
    with connect(proxy) as before:
        assert says(before, b"one") == b"one"
        if how == "silence":
            proxy.set(Mode.SILENCE)
        else:
            proxy.drop_silently()
        with connect(proxy) as after:
            before.settimeout(0.3)
            after.settimeout(0.3)
            with pytest.raises(TimeoutError):
                says(before, b"two")
            if how == "drop":
                assert says(after, b"new") == b"new"
                return
            with pytest.raises(TimeoutError):
                says(after, b"three")
            proxy.set(Mode.FLOW)
            with connect(proxy) as healed:
                assert says(healed, b"four") == b"four"
            with pytest.raises(TimeoutError):
                says(before, b"five")


def test_what_is_silent_stays_so_when_the_server_has_gone(proxy: TcpProxy) -> None:
    with connect(proxy) as before:
        assert says(before, b"one") == b"one"
        proxy.set(Mode.SILENCE)
        proxy.target = free_port()
        with connect(proxy) as after:
            for client in (before, after):
                client.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    says(client, b"two")


def test_it_cuts_in_the_middle(proxy: TcpProxy) -> None:
    proxy.set(Mode.CUT)
    with connect(proxy) as client:
        heard: list[bytes] = []

        def reset() -> bool:
            try:
                heard.append(client.recv(1000))
            except ConnectionResetError:
                return True
            return False

        client.sendall(b"12345678")
        wait_until(reset, what="the reset")
        assert b"".join(heard) in (b"", b"12", b"1234")


def test_replies_are_held_back_in_their_order(proxy: TcpProxy) -> None:
    proxy.delay = 0.2
    with connect(proxy) as client:
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            says(client, b"one")
        client.settimeout(2)
        client.sendall(b"two")
        heard = b""
        while len(heard) < 6:
            heard += client.recv(1000)
        assert heard == b"onetwo"
