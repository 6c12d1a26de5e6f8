"""``relay-cli tenant``: provision, list, drop, export and import the tenants of an event store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay.core.errors import ConfigError
from relay.postgres.sql import DEFAULT_SCHEMA
from relay_cli.groups import command_group
from relay_cli.output import plural, say
from relay_cli.shared_options import StorageUrl
from relay_cli.store_options import Schema, TenantId, with_store
from relay_cli.values import existing_file, tenant_id

if TYPE_CHECKING:
    from relay.eventstore import EventStore

app = command_group("Provision, list, drop, export and import the tenants of an event store.")


@app.command("provision")
def provision(
    context: typer.Context,
    tenants: Annotated[list[str], typer.Argument(metavar="TENANT...", parser=tenant_id, help="Ids of tenants, UUIDs.")],
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Create the partitions of tenants. It may run again, and while applications write.

    Example: relay-cli tenant provision 0190b0a0-0000-7000-8000-000000000001
    """

    async def work(store: EventStore) -> None:
        for tenant in tenants:
            await store.provision_tenant(tenant)
            say(f"provisioned {tenant}")

    with_store(context, storage_url, schema, work)


@app.command("list")
def list_(context: typer.Context, schema: Schema = DEFAULT_SCHEMA, storage_url: StorageUrl = None) -> None:
    """Print the id of every tenant, one a line.

    Example: relay-cli tenant list --schema bank
    """
    for tenant in with_store(context, storage_url, schema, lambda store: store.list_tenants()):
        say(str(tenant))


@app.command("drop")
def drop(
    context: typer.Context,
    tenant: TenantId,
    confirm: Annotated[
        str, typer.Option("--confirm", metavar="TENANT", help="The tenant's id again, to confirm.")
    ] = "",
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Delete all events of a tenant. Only an export can restore them.

    Example: relay-cli tenant drop 0190b0a0-0000-7000-8000-000000000001 --confirm 0190b0a0-0000-7000-8000-000000000001
    """
    from relay.eventstore.tenants import is_same_id

    if not is_same_id(confirm, tenant):
        raise ConfigError(f"dropping a tenant is irreversible; confirm with: --confirm {tenant}")
    with_store(context, storage_url, schema, lambda store: store.drop_tenant(tenant, confirm=confirm))
    say(f"dropped {tenant}")


@app.command("export")
def export(
    context: typer.Context,
    tenant: TenantId,
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=Path, help="The file to write, JSON lines.")],
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Write all events of a tenant to a file, from one snapshot.

    Example: relay-cli tenant export 0190b0a0-0000-7000-8000-000000000001 tenant.jsonl
    """
    count = with_store(context, storage_url, schema, lambda store: store.export_tenant(tenant, file))
    say(f"exported {plural(count, 'event')} to {file}")


@app.command("import")
def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=existing_file, help="A file that export wrote.")],
    tenant: Annotated[str | None, typer.Option("--tenant", help="Import under this id instead of the file's.")] = None,
    schema: Schema = DEFAULT_SCHEMA,
    storage_url: StorageUrl = None,
) -> None:
    """Provision the tenant of an exported file and add its events, with their versions and times.

    Example: relay-cli tenant import tenant.jsonl
    """
    imported, count = with_store(context, storage_url, schema, lambda store: store.import_tenant(file, tenant))
    say(f"imported {plural(count, 'event')} of {imported}")
