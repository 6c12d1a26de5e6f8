"""``relay-cli console``: the web console and the admin API."""

from __future__ import annotations

from typing import Annotated

import typer

from relay_cli.groups import HELP, single_command
from relay_cli.shared_options import StorageUrl, Table, read_settings

app = single_command()

Listen = Annotated[
    str | None,
    typer.Option(
        "--listen", metavar="ADDRESS:PORT", help="Where to listen, instead of CONSOLE_PORT.", show_default=False
    ),
]


@app.command("console", context_settings=HELP)
def command(
    context: typer.Context,
    listen: Listen = None,
    table: Table = None,
    storage_url: StorageUrl = None,
) -> None:
    """Serve the web console and the admin API, until Ctrl-C (docs/operate/console.md).

    It shows the backlog, searches events, and retries, replays, buries and cancels them. It is a process of its own
    and needs no relay. It listens on this machine alone unless CONSOLE_PORT says otherwise. It needs the extra
    console, and for changes the extension console (relay-cli migrate --with console).

    Exit codes: 0 ended by a signal, 1 failed, 2 wrong usage or a wrong setting.

    Example: relay-cli console --listen 127.0.0.1:8090
    """
    from relay.console.serve import VARIABLES, serve

    serve(read_settings(context, storage_url, table, VARIABLES, CONSOLE_PORT=listen))
