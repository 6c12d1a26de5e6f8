"""The orders. The outbox's model is in ``openoutbox.django``."""

from django.db import models


class Order(models.Model):
    id = models.UUIDField(primary_key=True)
    customer = models.TextField()
    amount = models.PositiveBigIntegerField()
