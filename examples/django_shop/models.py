"""The orders, and the outbox as a model: unmanaged, because its migration is the relay's own SQL."""

from django.db import models


class Order(models.Model):
    id = models.UUIDField(primary_key=True)
    customer = models.TextField()
    amount = models.PositiveBigIntegerField()


class OutboxEvent(models.Model):
    """For looking at. New events go in by ``openoutbox.enqueue``; all else is the relay's to change."""

    event_id = models.UUIDField(primary_key=True)
    event_type = models.TextField()
    partition_key = models.TextField(null=True)
    payload = models.BinaryField()
    headers = models.JSONField()
    status = models.TextField()
    attempts = models.IntegerField()
    last_error = models.TextField(null=True)
    available_at = models.DateTimeField()
    created_at = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True)

    class Meta:
        managed = False
        db_table = "openoutbox_events"

    def __str__(self) -> str:
        return f"{self.event_type} {self.event_id}"
