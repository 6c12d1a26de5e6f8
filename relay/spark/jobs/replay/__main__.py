"""``python -m relay.spark.jobs.replay``: the job, with the process's arguments."""

import sys

from relay.spark.jobs.replay.job import main

if __name__ == "__main__":
    sys.exit(main("python -m relay.spark.jobs.replay"))
