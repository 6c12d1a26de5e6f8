"""Whether a mark is the first: one that adds no row is a repeat, or a BEFORE trigger of the table left it out.

For ``openoutbox.inbox`` and ``openoutbox.processing``.
"""

from __future__ import annotations

from collections.abc import Sequence

from openoutbox.channel import leaves_out
from openoutbox.marks import Mark
from openoutbox.ports import AsyncCaller


async def mark_first(channel: AsyncCaller, mark: Mark) -> bool:
    """Mark an event; whether it is the first mark. Raises InboxRefused for one that a trigger leaves out."""
    first = bool(await channel.fetch(mark.statement, mark.values))
    if not first:
        await check_repeats(channel, mark, [mark.values["event_id"]])
    return first


async def check_repeats(channel: AsyncCaller, mark: Mark, event_ids: Sequence[str]) -> None:
    """Raise InboxRefused if one of these is no repeat: a trigger left its mark out."""
    if event_ids and (await channel.fetch(*mark.may_leave_out))[0][0]:
        for event_id in event_ids:
            mark.check(event_id, left_out=await leaves_out(channel, *mark.again(event_id)))
