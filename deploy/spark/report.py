"""What spark-submit is given: the job ``report`` of the installed wheel."""

import sys

from relay.spark.jobs.entry import start

if __name__ == "__main__":
    sys.exit(start("report", sys.argv[1:]))
