"""``python -m relay.spark.jobs.archive``: the job, with the process's arguments."""

import sys

from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.entry import start

if __name__ == "__main__":
    sys.exit(start(ArchiveArguments))
