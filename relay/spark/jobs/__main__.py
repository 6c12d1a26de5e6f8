"""``python -m relay.spark.jobs NAME …``: a job with its arguments; what ``relay-cli spark submit`` submits."""

import sys

from relay.spark.jobs.entry import start

if __name__ == "__main__":
    sys.exit(start(sys.argv[1], sys.argv[2:]))
