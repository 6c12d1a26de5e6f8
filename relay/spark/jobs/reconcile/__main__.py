"""``python -m relay.spark.jobs.reconcile``: the job, with the process's arguments."""

import sys

from relay.spark.jobs.entry import start
from relay.spark.jobs.reconcile.arguments import ReconcileArguments

if __name__ == "__main__":
    sys.exit(start(ReconcileArguments))
