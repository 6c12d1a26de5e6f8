"""``python -m relay.spark.jobs.reconcile``: the job, with the process's arguments."""

import sys

from relay.spark.jobs.reconcile.job import main

if __name__ == "__main__":
    sys.exit(main("python -m relay.spark.jobs.reconcile"))
