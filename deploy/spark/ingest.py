"""What spark-submit is given: the job ``ingest`` of the installed wheel."""

import sys

from relay.spark.jobs.ingest.job import main

if __name__ == "__main__":
    sys.exit(main())
