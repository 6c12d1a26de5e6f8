"""An example for Airflow 3: import a day's orders, then archive what was delivered a week ago.

The worker needs relay-cli and spark-submit; the URL of the database is a file that the drivers can read. Airflow 2 has
the two classes elsewhere: ``airflow.DAG`` and ``airflow.operators.bash.BashOperator``.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

with DAG(
    dag_id="openoutbox",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),  # its interval is the day that has ended
    catchup=False,
    max_active_runs=1,  # one archiving of an outbox at a time
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},  # both jobs may be run again however they ended
):
    ingest = BashOperator(
        task_id="ingest",
        # Not {{ ds }}: in a run that is started by hand it is the day that has not ended.
        bash_command="relay-cli spark submit ingest --master yarn -- /data/orders/day={{ data_interval_start | ds }}"
        " --event-type orders.created --key customer --id-columns order_number --url-file /secrets/outbox-url",
    )
    archive = BashOperator(
        task_id="archive",
        bash_command="relay-cli spark submit archive --master yarn -- s3a://lake/outbox"
        " --older-than 7d --url-file /secrets/outbox-url",
    )
    ingest >> archive
