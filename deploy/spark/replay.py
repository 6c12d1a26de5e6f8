"""What spark-submit is given: the job ``replay`` of the installed wheel."""

import sys

from relay.spark.jobs.entry import start

if __name__ == "__main__":
    sys.exit(start("replay", sys.argv[1:]))
