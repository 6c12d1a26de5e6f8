"""The former name of ``openoutbox.inbox``; its package warns."""

from openoutbox.inbox import once

__all__ = ["once"]
