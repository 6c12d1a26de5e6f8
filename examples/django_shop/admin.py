"""The admin's page of the orders; that of the outbox comes with ``openoutbox.django``."""

from django.contrib import admin

from examples.django_shop.models import Order

admin.site.register(Order)
