"""``python -m relay.spark.jobs.ingest``: the job, with the process's arguments."""

import sys

from relay.spark.jobs.entry import start
from relay.spark.jobs.ingest.arguments import IngestArguments

if __name__ == "__main__":
    sys.exit(start(IngestArguments))
