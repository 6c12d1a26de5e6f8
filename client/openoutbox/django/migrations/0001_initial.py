"""The outbox with its indexes."""

from typing import ClassVar

from django.db import migrations, models

from openoutbox.schema import create_statements

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


class Migration(migrations.Migration):
    """Makes the table; the application's role owns it."""

    initial = True
    operations: ClassVar = [
        migrations.RunSQL(create_statements(), "DROP TABLE openoutbox_events", state_operations=[_OUTBOX]),
    ]
