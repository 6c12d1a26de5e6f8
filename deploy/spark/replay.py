"""What spark-submit is given: the job ``replay`` of the installed wheel."""

import sys

from relay.spark.jobs.replay.job import main

if __name__ == "__main__":
    sys.exit(main())
