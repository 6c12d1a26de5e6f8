"""What spark-submit is given: the job ``reconcile`` of the installed wheel."""

import sys

from relay.spark.jobs.reconcile.job import main

if __name__ == "__main__":
    sys.exit(main())
