"""``python -m relay.spark.jobs.replay``: the job, with the process's arguments."""

import sys

from relay.spark.jobs.entry import start
from relay.spark.jobs.replay.arguments import ReplayArguments

if __name__ == "__main__":
    sys.exit(start(ReplayArguments))
