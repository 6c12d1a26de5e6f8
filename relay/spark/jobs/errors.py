"""What the jobs of an archive raise."""

from relay.core.errors import OutboxError


class ArchiveError(OutboxError):
    """The archive's folder cannot be used, or its content is wrong; no row was deleted from the outbox for it."""
