"""``python -m relay.spark.jobs.report``: the job, with the process's arguments."""

import sys

from relay.spark.jobs.entry import start
from relay.spark.jobs.report.arguments import ReportArguments

if __name__ == "__main__":
    sys.exit(start(ReportArguments))
