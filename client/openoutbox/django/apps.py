"""How Django calls the application."""

from django.apps import AppConfig


class OpenOutboxConfig(AppConfig):
    """Label ``openoutbox``."""

    name = "openoutbox.django"
    label = "openoutbox"
    verbose_name = "Open Outbox"
    default_auto_field = "django.db.models.BigAutoField"
