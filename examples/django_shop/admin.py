"""The admin's pages. That of the outbox changes nothing: replay and prune with relay-cli or the console."""

from django.contrib import admin
from django.http import HttpRequest

from examples.django_shop.models import Order, OutboxEvent

admin.site.register(Order)


@admin.register(OutboxEvent)
class OutboxAdmin(admin.ModelAdmin):
    list_display = ("event_type", "partition_key", "status", "attempts", "created_at", "delivered_at")
    list_filter = ("status",)
    search_fields = ("=event_id", "=partition_key")
    ordering = ("-created_at",)
    show_full_result_count = False  # counts are slow on a large table
    fields = (*list_display, "event_id", "headers", "body", "available_at", "last_error")

    @admin.display(description="payload")
    def body(self, event: OutboxEvent) -> str:
        return bytes(event.payload).decode(errors="replace")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: OutboxEvent | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: OutboxEvent | None = None) -> bool:
        return False
