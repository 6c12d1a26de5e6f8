"""The inbox with its index: a migration of its own, since each table may be there already, made by ``relay-cli``."""

from typing import ClassVar

from django.db import migrations, models

from openoutbox.schema import inbox_statements

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
    """Makes the table; the application's role owns it."""

    dependencies: ClassVar = [("openoutbox", "0001_initial")]
    operations: ClassVar = [
        migrations.RunSQL(inbox_statements(), "DROP TABLE openoutbox_inbox", state_operations=[_INBOX]),
    ]
