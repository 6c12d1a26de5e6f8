"""The blocks of the documents that test_documents.py only parses, each with the test that covers it instead."""

from __future__ import annotations

from typing import Final

NOT_RUN: Final = {
    "docs/design/exactly-once.md sh 1": "tests/cli/test_kafka_setup.py sets such a Kafka up, and checks it",
    "docs/design/extending.md sh 1": "runs tests of this run",
    "docs/guide/client.md python 2": "tests/examples/test_frameworks.py runs such a migration",
    "docs/guide/ordering.md sql 1": "tests/outbox/test_key_order.py runs such a statement",
    "docs/guide/testing.md python 3": "tests/client/test_testing.py runs such a case",
    **{
        f"docs/guide/from-debezium.md {block}": "tests/system/scale/test_debezium.py walks the page"
        for block in ("sh 1", "sh 2", "sql 1", "sql 2", "sql 3")
    },
    "README.md sh 1": "installs what this run has already; tests/system/acceptance/test_demo.py runs the demonstration",
    "README.md sh 2": "tests/system/acceptance/test_readme.py holds it equal to the page of the first event",
    "README.md sql 1": "tests/system/acceptance/test_readme.py holds it equal to the page of the first event",
    "docs/guide/first-event.md sh 1": "tests/system/acceptance/test_readme.py follows the whole page",
    "docs/guide/first-event.md sql 1": "tests/system/acceptance/test_readme.py follows the whole page",
    "docs/guide/first-event.md python 1": "tests/system/acceptance/test_readme.py follows the whole page",
    "docs/guide/first-event.md sh 2": "tests/system/acceptance/test_readme.py follows the whole page",
    "docs/guide/routing.md sh 1": "tests/cli/test_route.py asks where events go",
    "docs/guide/routing.md sh 2": "tests/system/acceptance/test_fan_out.py adds the extension",
    "docs/reference/messages.md python 1": "a function; tests/brokers/redis/test_trimming.py runs it",
    "docs/reference/messages.md sh 1": "makes a secret; tests/brokers/http/test_signing.py signs with such",
    "docs/reference/cli.md sh 13": "tests/console/test_browser.py starts it",
    "docs/operate/console-access.md sh 1": "tests/console/access/test_logging_in.py logs in with such a token",
    "docs/operate/console-access.md sh 2": "tests/console/access/test_api_token.py reads the API with such a token",
    "docs/operate/console-access.md sh 3": "tests/console/access/test_provider_server.py logs in with these",
    "examples/mqtt_destination/README.md sh 1": "tests/examples/test_mqtt_destination.py runs a relay with it",
    "docs/operate/trust.md sh 2": "tests/brokers/rabbitmq/test_rights.py runs it",
    "docs/operate/trust.md sh 3": "tests/brokers/kafka/test_rights.py runs it",
    "docs/operate/trust.md sh 1": "tests/engine/test_outcomes.py runs a relay with such patterns",
    "docs/operate/trust.md sql 1": "tests/outbox/test_inserter.py inserts with these rights",
    "docs/operate/console.md sh 1": "tests/console/test_browser.py starts it beside a table with the extension",
    "docs/operate/console.md sh 2": "tests/system/container runs the console of the image behind a login",
    **{
        f"docs/operate/deployment.md sh {number}": "tests/system/acceptance/test_deployment.py follows the whole page"
        for number in (1, 2, *range(5, 9), 10, 11)
    },
    "docs/operate/deployment.md sh 9": "asks for a password; tests/cli/test_access.py answers",
    "docs/operate/upgrades.md sh 1": "tests/system/acceptance/test_upgrade.py follows it from the first version",
    "docs/operate/upgrades.md sh 2": "tests/system/acceptance/test_deployment.py follows the whole page",
    "docs/operate/deployment.md sql 1": "tests/system/acceptance/test_deployment.py follows the whole page",
    "docs/operate/deployment.md sh 3": "tests/system/container runs the image with these options",
    "docs/operate/deployment.md sh 4": "tests/deploy runs the jobs of the compose file",
    "docs/guide/event-store.md sh 1": "tests/eventstore/test_archive.py dumps with these commands",
    "docs/guide/event-store.md sh 2": "tests/eventstore/test_archive.py restores with these commands",
    **{
        f"docs/guide/inbox.md python {number}": "tests/inbox/test_page.py runs the whole page" for number in range(1, 4)
    },
    "docs/guide/inbox.md sh 1": "tests/inbox/test_page.py runs the whole page",
    "docs/guide/inbox.md sh 3": "tests/inbox/test_page.py runs the whole page",
    "docs/guide/inbox.md sh 2": "tests/inbox/test_page.py runs the whole page",
    "docs/guide/inbox.md sql 1": "tests/inbox/test_page.py grants each line",
    "docs/guide/sql-api.md sql 3": "tests/client/test_sql_api.py grants it",
    "docs/guide/inbox.md sql 2": "tests/inbox/test_roles.py makes the policies",
    "examples/bank/README.md sh 2": "tests/examples/test_examples.py runs it",
    "docs/guide/spark-archive.md sh 1": "tests/spark/test_documents.py reads the arguments",
    "docs/guide/spark-archive.md python 1": "tests/spark/jobs/test_archive.py follows it beside its Spark",
    "docs/guide/spark-archive.md sql 1": "tests/spark/test_grants.py holds it to what setup grants",
    "docs/guide/spark-replay.md sh 1": "tests/spark/test_documents.py reads the arguments",
    "docs/guide/spark-replay.md sql 1": "tests/spark/test_grants.py holds it to what setup grants",
    "docs/guide/spark.md python 1": "tests/spark/test_documents.py follows it beside its Spark",
    "docs/guide/spark.md python 2": "tests/spark/test_documents.py follows it beside its Spark",
    "docs/guide/spark.md python 3": "tests/spark/test_documents.py follows it beside its Spark",
    "docs/guide/spark.md python 4": "tests/spark/test_documents.py follows it beside its Spark",
    "docs/guide/spark.md python 5": "tests/spark/test_documents.py follows it beside its Spark",
    "docs/guide/spark.md python 6": "tests/spark/test_driver_death.py runs it in a driver that is killed",
    "docs/guide/spark.md sh 1": "tests/spark/test_documents.py follows it beside its Spark",
    "docs/guide/spark.md sh 2": "tests/spark/jobs/test_connect.py starts such a server, and runs the command on it",
    "docs/guide/spark-reconcile.md sh 1": "tests/spark/test_documents.py reads it, test_reconcile.py runs it",
    "docs/guide/spark-reconcile.md sh 2": "tests/spark/test_documents.py reads it, test_reconcile.py runs it",
    "docs/guide/spark-reconcile.md sql 1": "tests/system/acceptance/test_reconcile.py reads with this grant alone",
    "docs/guide/spark-report.md sh 1": "tests/spark/test_documents.py reads the arguments; test_report.py runs it",
    "docs/guide/spark-report.md sql 1": "tests/spark/jobs/test_report.py reads with these grants and no others",
    "docs/guide/spark.md sql 1": "tests/spark/test_grants.py holds it equal to what setup grants, and tries it",
}
"""Blocks that are only parsed, and why."""
