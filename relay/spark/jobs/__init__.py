"""The jobs that ``spark-submit`` and ``relay-cli spark`` run, and what several of them share."""
