"""The outbox and the inbox, with their indexes."""

from typing import ClassVar

from django.db import migrations, models

from openoutbox.schema import create_statements, inbox_statements

_OUTBOX = migrations.CreateModel(
    "OutboxEvent",
    [
        ("event_id", models.UUIDField(primary_key=True, serialize=False)),
        ("event_type", models.TextField()),
        ("partition_key", models.TextField(null=True)),
        ("payload", models.BinaryField()),
        ("headers", models.JSONField()),
        ("status", models.TextField()),
        ("attempts", models.IntegerField()),
        ("last_error", models.TextField(null=True)),
        ("available_at", models.DateTimeField()),
        ("locked_by", models.TextField(null=True)),
        ("locked_at", models.DateTimeField(null=True)),
        ("delivered_at", models.DateTimeField(null=True)),
        ("created_at", models.DateTimeField()),
        ("updated_at", models.DateTimeField()),
    ],
    options={"db_table": "openoutbox_events"},
)
_INBOX = migrations.CreateModel(
    "InboxMark",
    [
        ("consumer", models.TextField()),
        ("event_id", models.TextField(primary_key=True, serialize=False)),
        ("received_at", models.DateTimeField()),
    ],
    options={"db_table": "openoutbox_inbox"},
)


class Migration(migrations.Migration):
    """Makes both tables; the application's role owns them."""

    initial = True
    operations: ClassVar = [
        migrations.RunSQL(create_statements(), "DROP TABLE openoutbox_events", state_operations=[_OUTBOX]),
        migrations.RunSQL(inbox_statements(), "DROP TABLE openoutbox_inbox", state_operations=[_INBOX]),
    ]
