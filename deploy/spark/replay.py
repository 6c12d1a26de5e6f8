"""What spark-submit is given: the job ``replay`` of the installed wheel."""

import sys

from relay.spark.replay import main

if __name__ == "__main__":
    sys.exit(main())
