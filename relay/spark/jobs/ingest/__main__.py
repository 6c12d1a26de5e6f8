"""``python -m relay.spark.jobs.ingest``: the job, with the process's arguments."""

import sys

from relay.spark.jobs.ingest.job import main

if __name__ == "__main__":
    sys.exit(main("python -m relay.spark.jobs.ingest"))
