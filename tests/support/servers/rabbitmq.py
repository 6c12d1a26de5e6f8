"""A real RabbitMQ node on free ports of 127.0.0.1, its data in a temporary folder.

The Debian package ``rabbitmq-server`` brings it; ``.ci/run`` installs that. Erlang's port mapper, which a node needs,
is a child of the node with a port of its own: the kernel ends it with the node, however that ends. Users and their
rights come from a definitions file, so that no tool has to log in to the node first.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from relay.localservers.process import ServerFailed, free_ports
from relay.localservers.server import LocalServer

_FOLDERS: Final = "/usr/lib/rabbitmq/bin"  # Debian's program on PATH changes the user first
_GREETING: Final = b"AMQP\0\0\x09\x01"
USER: Final = "admin"
"""May do everything; its password is the same."""
_WRITERS: Final = {"writer": r"^(amq\.default|events)$", "elsewhere": "^other$", "picky": "^events$"}
"""Users with the password ``right`` who may write to exchanges of these names, and do nothing else."""
_TOPICS: Final = [{"user": "picky", "vhost": "/", "exchange": "events", "write": r"^allowed\.", "read": "^$"}]
"""What ``picky`` may write to the exchange ``events``."""
NARROW: Final = ("narrow", "strait")
"""Virtual hosts with room for one connection."""


class RabbitServer(LocalServer):
    """One node with classic and quorum queues, and no plugin."""

    name = "RabbitMQ"
    ready_within = 60.0

    def __init__(self, *, config: Sequence[str] = ()) -> None:
        """``config`` are lines of rabbitmq.conf."""
        super().__init__()
        self._config = config
        self.port = self.tls_port = 0
        self._mapper = self._distribution = 0

    @property
    def url(self) -> str:
        """The address of the default vhost, for a user who may do everything."""
        return self.url_of(USER, USER)

    def url_of(self, user: str, password: str) -> str:
        """The same for another user."""
        return f"amqp://{user}:{password}@127.0.0.1:{self.port}/"

    @contextmanager
    def without_memory(self) -> Iterator[None]:
        """Raise the memory alarm, which blocks connections that publish, until the end."""
        self._call("vm_memory_monitor", "set_vm_memory_high_watermark", "[0.0000001]")
        try:
            yield
        finally:
            self._call("vm_memory_monitor", "set_vm_memory_high_watermark", "[0.4]")

    def connections(self) -> int:
        """How many clients the node has."""
        return int(self._call("ets", "info", "[connection_created, size]"))

    def _call(self, module: str, function: str, arguments: str) -> str:
        """Call a function in the node, which costs a hundredth of the processor time of ``rabbitmqctl``."""
        call = ["-n", f"relay{self.port}@localhost", "-a", f"{module} {function} {arguments}"]
        return self._run_tool([_program("erl_call"), *call])

    def control(self, *words: str) -> str:
        """Run ``rabbitmqctl`` on this node; returns what it wrote."""
        return self._run_tool([_program("rabbitmqctl"), "--quiet", "--node", f"relay{self.port}@localhost", *words])

    def _run_tool(self, command: Sequence[str]) -> str:
        done = subprocess.run(
            command,
            env=self._environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=60 * self.patience,
        )
        return done.stdout

    def _prepare(self) -> None:
        self.port, self.tls_port, self._mapper, self._distribution = free_ports(4)
        lines = [
            f"listeners.tcp.1 = 127.0.0.1:{self.port}",
            f"load_definitions = {self.folder}/definitions.json",
            "log.console.level = error",
            "log.file = false",
            "log.console = true",
            *(line.replace("TLS_PORT", str(self.tls_port)) for line in self._config),
        ]
        (self.folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (self.folder / "definitions.json").write_text(json.dumps(self._definitions()), encoding="utf-8")
        (self.folder / "plugins").write_text("[].\n", encoding="utf-8")

    def _definitions(self) -> dict[str, Any]:
        every = {"configure": ".*", "write": ".*", "read": ".*"}
        limit = {"component": "vhost-limits", "name": "limits", "value": {"max-connections": 1}}
        return {
            "users": [
                {"name": USER, "password": USER, "tags": "administrator"},
                *({"name": user, "password": "right", "tags": ""} for user in _WRITERS),
            ],
            "vhosts": [{"name": name} for name in ("/", *NARROW)],
            "permissions": [
                *({"user": USER, "vhost": name} | every for name in ("/", *NARROW)),
                *(
                    {"user": user, "vhost": "/", "configure": "^$", "write": write, "read": "^$"}
                    for user, write in _WRITERS.items()
                ),
            ],
            "topic_permissions": _TOPICS,
            "parameters": [{"vhost": name} | limit for name in NARROW],
        }

    def _command(self) -> Sequence[str | Path]:
        mapper = f"setpriv --pdeathsig KILL epmd -address 127.0.0.1 -port {self._mapper}"
        return ["/bin/sh", "-c", f'{mapper} >/dev/null 2>&1 & exec "$0"', _program("rabbitmq-server")]

    def _environment(self) -> Mapping[str, str]:
        folder = str(self.folder)
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "HOME": folder,  # of the cookie
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper),
            "RABBITMQ_NODENAME": f"relay{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/logs",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_ALLOW_INPUT": "1",  # the script becomes the node, instead of waiting for it
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -start_epmd false",
        }

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
            client.sendall(_GREETING)
            return client.recv(1) == b"\x01"
        return False


def missing() -> str | None:
    """Why RabbitMQ cannot be started here; None when it can."""
    names = ("rabbitmq-server", "epmd", "setpriv")
    absent = [name for name in names if shutil.which(name, path=_path()) is None]
    return f"{absent[0]} is not installed; on Debian: apt-get install rabbitmq-server" if absent else None


def _program(name: str) -> str:
    if (reason := missing()) is not None:
        raise ServerFailed(reason)
    return shutil.which(name, path=_path()) or name


def _path() -> str:
    return f"{_FOLDERS}:{os.environ.get('PATH', '')}"
