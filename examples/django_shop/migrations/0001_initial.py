"""The orders' table by Django, the outbox by the relay's SQL; its model is declared to Django without any SQL."""

from django.db import migrations, models

from openoutbox import create_statements

OUTBOX_MODEL = migrations.CreateModel(
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
        ("created_at", models.DateTimeField()),
        ("delivered_at", models.DateTimeField(null=True)),
    ],
    options={"db_table": "openoutbox_events", "managed": False},
)


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            "Order",
            [
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("customer", models.TextField()),
                ("amount", models.PositiveBigIntegerField()),
            ],
        ),
        migrations.RunSQL(create_statements(), "DROP TABLE openoutbox_events", state_operations=[OUTBOX_MODEL]),
    ]
