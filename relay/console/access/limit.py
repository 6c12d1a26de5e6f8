"""Limits how often a login may be tried: from one address, for one name, and for both together.

Each key is a bucket that holds some attempts and refills over five minutes; an attempt is taken before the password is
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
"""Keys of each kind; beyond it the key that was used longest ago is forgotten."""
PER_PAIR: Final = 5
PER_ADDRESS: Final = 30
PER_NAME: Final = 100
"""Attempts in five minutes. One for a name from all addresses slows a guess from many machines; it is high, because
it also holds up the user of that name."""

_IPV6_NETWORK: Final = 64  # bits; a client of IPv6 has a network of this size to itself


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class Buckets:
    """Leaky buckets by key: ``take`` answers with the seconds to wait, 0 when the attempt is allowed."""

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


class LoginLimit:
    """The three limits of a login."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._pairs = Buckets(PER_PAIR, clock)
        self._addresses = Buckets(PER_ADDRESS, clock)
        self._names = Buckets(PER_NAME, clock)

    def take(self, address: str, name: str) -> float:
        """Count an attempt, and return 0; or return the seconds to wait, and count nothing."""
        keys = self._keys(address, name)
        wait = max(buckets.wait(key) for buckets, key in keys)
        if wait == 0:
            for buckets, key in keys:
                buckets.take(key)
        return wait

    def give_back(self, address: str, name: str) -> None:
        """Take back the attempt: the login was right."""
        for buckets, key in self._keys(address, name):
            buckets.give_back(key)

    def _keys(self, address: str, name: str) -> list[tuple[Buckets, Hashable]]:
        network = network_of(address)
        # The hash bounds what a key takes in memory, whatever is sent as a name.
        return [
            (self._pairs, (network, hash(name))),
            (self._addresses, network),
            (self._names, hash(name)),
        ]


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
