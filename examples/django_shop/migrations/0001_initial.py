"""The orders' table. The outbox is made by the migrations of ``openoutbox.django``."""

from django.db import migrations, models


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
    ]
