"""Every mutant, room by room."""

from __future__ import annotations

from typing import Final

from tests.system.mutants.brokers import BROKERS
from tests.system.mutants.engine import ENGINE
from tests.system.mutants.inbox import INBOX
from tests.system.mutants.outbox import OUTBOX, SQL
from tests.system.mutants.proofs import PROOFS
from tests.system.mutants.routing import ROUTING
from tests.system.mutants.traces import TRACES

MUTANTS: Final = (*ENGINE, *OUTBOX, *SQL, *BROKERS, *TRACES, *INBOX, *ROUTING, *PROOFS)
