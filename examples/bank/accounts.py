"""The domain: what an account is, and which events a command leads to. Pure, as it should be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relay.eventstore import NewEvent, StoredEvent


class Refused(Exception):
    """The bank does not do that."""


@dataclass
class Account:
    """An account, as its events tell it."""

    version: int = 0
    owner: str | None = None
    balance: int = 0
    """In cents."""

    @classmethod
    def from_events(cls, events: Iterable[StoredEvent]) -> Account:
        """Fold the history."""
        account = cls()
        for event in events:
            account.apply(event)
        return account

    def apply(self, event: StoredEvent) -> None:
        """Take one event in."""
        data = event.data
        assert isinstance(data, dict)
        match event.type:
            case "AccountOpened":
                self.owner = data["owner"]
            case "MoneyDeposited":
                self.balance += data["amount"]
            case "MoneyWithdrawn":
                self.balance -= data["amount"]
        self.version = event.version

    def open(self, owner: str) -> list[NewEvent]:
        """A customer comes."""
        if self.version:
            raise Refused("the account is open already")
        return [NewEvent("AccountOpened", {"owner": owner})]

    def deposit(self, amount: int) -> list[NewEvent]:
        """Cents come in."""
        self._must_be_open()
        return [NewEvent("MoneyDeposited", {"amount": amount})]

    def withdraw(self, amount: int) -> list[NewEvent]:
        """Cents go out, if they are there."""
        self._must_be_open()
        if amount > self.balance:
            raise Refused(f"there are only {self.balance} cents")
        return [NewEvent("MoneyWithdrawn", {"amount": amount})]

    def _must_be_open(self) -> None:
        if not self.version:
            raise Refused("there is no such account")
