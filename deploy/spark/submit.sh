#!/usr/bin/env bash
# spark-submit of a job, on three kinds of clusters: [JOB=ingest] ./submit.sh standalone|yarn|kubernetes ARGUMENTS…
# JOB is ingest, archive, replay, reconcile or report. PACKAGES are Maven packages for it: reconcile wants Spark's Kafka
# source, org.apache.spark:spark-sql-kafka-0-10_2.13 of Spark's own version; an archive in tables wants Delta Lake's or
# Iceberg's, and settings in spark-defaults.conf: docs/guide/spark-archive.md.
# Driver and executors need Python with both wheels, installed with --no-deps, and psycopg, pyarrow, numpy and pandas.
# ENVIRONMENT is such a Python, packed by: venv-pack -o outbox-env.tar.gz
set -euo pipefail

kind=${1:?standalone, yarn or kubernetes}
shift
name=${JOB:-ingest}
job="$(dirname "${BASH_SOURCE[0]}")/$name.py"
environment=${ENVIRONMENT:-outbox-env.tar.gz}
common=(
  --name "openoutbox-$name"
  --conf spark.executor.memoryOverhead=1g # Python's own memory: batchsize rows, encoded, for each core
)

[[ -z ${PACKAGES:-} ]] || common+=(--packages "$PACKAGES")
secret=--url-file
[[ $name != report ]] || secret=--log-url-file

case $kind in
standalone) # the package is installed on every worker
  exec spark-submit "${common[@]}" --master "${MASTER:?spark://host:7077}" \
    --conf spark.cores.max=16 "$job" "$@"
  ;;
yarn) # the environment travels with the job
  export PYSPARK_PYTHON=./environment/bin/python
  exec spark-submit "${common[@]}" --master yarn --deploy-mode cluster \
    --archives "$environment#environment" \
    --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python \
    --num-executors 8 --executor-cores 2 "$job" "$@"
  ;;
kubernetes) # the image and the account of kubernetes.yaml; spark-submit ends with 0 however the driver ends (SPARK-26365)
  exec spark-submit "${common[@]}" --master "${MASTER:?k8s://https://host:6443}" --deploy-mode cluster \
    --conf spark.kubernetes.container.image="${IMAGE:?the image}" \
    --conf spark.kubernetes.namespace=outbox \
    --conf spark.kubernetes.authenticate.driver.serviceAccountName=spark-driver \
    --conf spark.kubernetes.driver.secrets.outbox-url=/secrets \
    --conf spark.executor.instances=8 \
    "local:///opt/openoutbox/$name.py" "$@" "$secret" /secrets/url
  ;;
*)
  echo "unknown kind of cluster: $kind" >&2
  exit 2
  ;;
esac
