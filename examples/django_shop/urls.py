"""The one request: an order and its event are committed together, or neither is."""

import os
from uuid import UUID

from django.contrib import admin
from django.core.asgi import get_asgi_application
from django.db import connection, transaction
from django.db.models import Sum
from django.http import HttpRequest, JsonResponse, QueryDict
from django.urls import path

from openoutbox import NewEvent, enqueue

TOPIC = os.environ.get("TOPIC", "order.placed")
CREDIT_LIMIT = 1000

application = get_asgi_application()  # before the models are imported

from examples.django_shop.models import Order  # noqa: E402


class OverTheLimit(Exception):
    pass


def place(request: HttpRequest, order_id: UUID) -> JsonResponse:
    form = QueryDict(request.body)
    try:
        with transaction.atomic():
            new = _place(order_id, form["customer"], int(form["amount"]))
    except OverTheLimit:  # outside the block: leaving it by an exception took the order and its event back
        return JsonResponse({"detail": "over the credit limit"}, status=409)
    return JsonResponse({"new": new})


def _place(order_id: UUID, customer: str, amount: int) -> bool:
    _, new = Order.objects.get_or_create(id=order_id, defaults={"customer": customer, "amount": amount})
    if new:  # so that a repeated request announces nothing twice
        body = {"order_id": str(order_id), "customer": customer, "amount": amount}
        enqueue(connection, NewEvent(TOPIC, body, partition_key=customer))
    if Order.objects.filter(customer=customer).aggregate(owed=Sum("amount"))["owed"] > CREDIT_LIMIT:
        raise OverTheLimit
    return new


urlpatterns = [path("admin/", admin.site.urls), path("orders/<uuid:order_id>/", place)]
