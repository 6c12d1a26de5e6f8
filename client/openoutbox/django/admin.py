"""The admin's page of the outbox. It changes nothing: replay and prune with relay-cli or the console."""

from django.contrib import admin
from django.http import HttpRequest

from openoutbox.django.models import OutboxEvent


@admin.register(OutboxEvent)
class OutboxAdmin(admin.ModelAdmin):
    """Events by status, id or key."""

    list_display = ("event_type", "partition_key", "status", "attempts", "created_at", "delivered_at")
    list_filter = ("status",)
    search_fields = ("=event_id", "=partition_key")
    ordering = ("-created_at",)
    show_full_result_count = False  # counts are slow on a large table
    fields = (*list_display, "event_id", "headers", "body", "available_at", "last_error")

    @admin.display(description="payload")
    def body(self, event: OutboxEvent) -> str:
        """As text, as far as it is."""
        return bytes(event.payload).decode(errors="replace")

    def has_add_permission(self, _request: HttpRequest) -> bool:
        """Events go in by ``enqueue``."""
        return False

    def has_change_permission(self, _request: HttpRequest, _obj: OutboxEvent | None = None) -> bool:
        """A row is the relay's to change."""
        return False

    def has_delete_permission(self, _request: HttpRequest, _obj: OutboxEvent | None = None) -> bool:
        """Prune deletes."""
        return False
