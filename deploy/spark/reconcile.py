"""What spark-submit is given: the job ``reconcile`` of the installed wheel."""

import sys

from relay.spark.jobs.entry import start

if __name__ == "__main__":
    sys.exit(start("reconcile", sys.argv[1:]))
