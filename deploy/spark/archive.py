"""What spark-submit is given: the job ``archive`` of the installed wheel."""

import sys

from relay.spark.jobs.archive.job import main

if __name__ == "__main__":
    sys.exit(main())
