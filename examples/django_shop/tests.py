"""Tests of an application: what an order announces, with and without a transaction around each test.

python -m django test examples.django_shop.tests
"""

import uuid

from django.test import TestCase, TransactionTestCase

from openoutbox.django.models import OutboxEvent
from openoutbox.testing import OutboxMixin


class Placing(OutboxMixin, TestCase):
    def test_an_order_is_announced(self) -> None:
        order_id = uuid.uuid4()
        self.client.put(f"/orders/{order_id}/", "customer=ada&amount=30")
        self.outbox.assert_announced(
            type="order.placed", payload={"order_id": str(order_id), "customer": "ada", "amount": 30}
        )


class Committing(TransactionTestCase):
    """Django empties the outbox between these, too, since its model is managed."""

    def test_first(self) -> None:
        self.place()

    def test_second(self) -> None:
        self.place()

    def place(self) -> None:
        self.client.put(f"/orders/{uuid.uuid4()}/", "customer=ada&amount=30")
        assert OutboxEvent.objects.count() == 1
