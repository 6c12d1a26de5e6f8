"""Limits how often a login may be tried from one address.

Each address is a bucket that holds some attempts and refills over five minutes; an attempt is taken before the token is
checked, so that attempts at the same time count too. All is in memory, and bounded.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

REFILL_SECONDS: Final = 300.0
MOST_KEYS: Final = 10_000
"""Beyond it the key that was used longest ago is forgotten."""
PER_ADDRESS: Final = 30
"""Attempts in five minutes."""

_IPV6_NETWORK: Final = 64  # bits; a client of IPv6 has a network of this size to itself


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class Buckets:
    """Leaky buckets by key: ``wait`` says how long until an attempt is allowed, ``take`` counts one."""

    def __init__(self, capacity: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._clock = clock
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        """The number of keys in memory."""
        return len(self._buckets)

    def wait(self, key: Hashable) -> float:
        """Seconds until an attempt is allowed."""
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0.0
        excess = self._now(bucket) + 1 - self._capacity
        return max(0.0, excess * REFILL_SECONDS / self._capacity)

    def take(self, key: Hashable) -> None:
        """Count one attempt."""
        bucket = self._buckets.pop(key, None) or _Bucket(0.0, self._clock())
        self._buckets[key] = _Bucket(self._now(bucket) + 1, self._clock())
        if len(self._buckets) > MOST_KEYS:
            self._buckets.popitem(last=False)

    def give_back(self, key: Hashable) -> None:
        """Forget one attempt: it was a right one."""
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.level = max(0.0, bucket.level - 1)

    def _now(self, bucket: _Bucket) -> float:
        """The attempts that still count."""
        return max(0.0, bucket.level - (self._clock() - bucket.at) * self._capacity / REFILL_SECONDS)


def network_of(address: str) -> str:
    """What one client has to itself: its IPv4 address, or its network of IPv6."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:64]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(int(parsed) >> (128 - _IPV6_NETWORK))
