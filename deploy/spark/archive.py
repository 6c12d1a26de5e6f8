"""What spark-submit is given: the job ``archive`` of the installed wheel."""

import sys

from relay.spark.jobs.entry import start

if __name__ == "__main__":
    sys.exit(start("archive", sys.argv[1:]))
