"""What spark-submit is given: the job ``report`` of the installed wheel."""

import sys

from relay.spark.jobs.report.job import main

if __name__ == "__main__":
    sys.exit(main())
