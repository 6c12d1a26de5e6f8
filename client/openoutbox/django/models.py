"""The rows of the outbox and the marks of the inbox, to look at."""

from django.db import models


class OutboxEvent(models.Model):
    """An event, and what became of it."""

    event_id = models.UUIDField(primary_key=True)
    event_type = models.TextField()
    partition_key = models.TextField(null=True)
    payload = models.BinaryField()
    headers = models.JSONField()
    status = models.TextField()
    attempts = models.IntegerField()
    last_error = models.TextField(null=True)
    available_at = models.DateTimeField()
    locked_by = models.TextField(null=True)
    locked_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        """The contract's table."""

        db_table = "openoutbox_events"

    def __str__(self) -> str:
        """Type and id."""
        return f"{self.event_type} {self.event_id}"


class InboxMark(models.Model):
    """An event that a consumer has handled. Its key is (consumer, event_id), which Django's admin cannot show."""

    consumer = models.TextField()
    event_id = models.TextField(primary_key=True)
    received_at = models.DateTimeField()

    class Meta:
        """The inbox's table."""

        db_table = "openoutbox_inbox"

    def __str__(self) -> str:
        """Consumer and id."""
        return f"{self.consumer} {self.event_id}"
