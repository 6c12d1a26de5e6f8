"""Mistakes of other delivery logs, and the tests that detect them here."""

from __future__ import annotations

import importlib
import inspect

import pytest

TRAPS: dict[str, list[str]] = {
    "1. a cursor of milliseconds over times of microseconds loses rows": [
        "test_listing.test_times_microseconds_apart_lose_no_row_at_a_page_edge",
        "test_listing.test_a_row_is_found_by_the_time_it_was_written_with",
    ],
    "2. a cursor written with OR filters instead of seeking; the row comparison alone prunes no partition": [
        "test_plans.test_a_deep_page_costs_a_page_on_postgres",
        "test_plans.test_a_window_spares_the_other_months_on_postgres",
    ],
    "3. on ClickHouse a comparison of tuples alone prunes nothing, and literals of seconds move bounds": [
        "test_plans.test_a_deep_page_costs_a_page_on_clickhouse",
        "clickhouse.test_driver.test_bounds_below_a_second_are_exact",
    ],
    "4. = ANY loses the order of the index": [
        "test_plans.test_a_deep_page_costs_a_page_on_postgres",
        "test_plans.test_several_values_are_merged_and_not_filtered_on_postgres",
        "test_listing.test_many_values_of_two_filters_are_merged_in_order",
    ],
    "5. a GIN index is not used under ORDER BY and LIMIT": [
        "test_plans.test_a_deep_page_costs_a_page_on_postgres",
    ],
    "6. a DEFAULT partition is read by every query and forbids DETACH CONCURRENTLY": [
        "postgres.test_driver.test_months_are_made_ahead_and_there_is_no_default_partition",
        "postgres.test_driver.test_retention_does_not_make_writers_wait",
    ],
    "7. a lookup by id alone looks into every partition": [
        "test_plans.test_one_id_is_looked_for_near_its_time_on_postgres",
        "test_writing.test_time_ordered_ids_are_found_even_where_their_time_lies",
    ],
    "8. keys without the tenant lose another tenant's rows": [
        "test_writing.test_two_tenants_with_the_same_ids_do_not_meet",
        "test_listing.test_twins_of_two_tenants_survive_every_page_edge",
    ],
    "9. on ClickHouse a key that begins with the time reads every tenant, and buckets of weeks fail": [
        "test_plans.test_a_deep_page_costs_a_page_on_clickhouse",
        "test_metrics.test_a_granularity_of_each_unit_against_walking",
        "test_metrics.test_weeks_begin_on_sunday",
    ],
    "10. times that go through a float, have no zone, or come back in the session's": [
        "test_times.test_every_instant_keeps_its_milliseconds",
        "test_times.test_a_time_without_a_zone_is_refused",
        "test_writing.test_what_can_only_be_a_mistake_is_refused_at_once",
        "postgres.test_driver.test_the_servers_zone_changes_nothing",
        "clickhouse.test_driver.test_the_zone_of_session_and_process_changes_nothing",
    ],
    "11. ids in the server's collation": [
        "postgres.test_driver.test_ids_have_the_collation_of_bytes",
        "test_listing.test_identical_times_are_ordered_by_the_bytes_of_the_id",
    ],
    "12. two batches in opposite order deadlock": [
        "postgres.test_driver.test_batches_in_opposite_order_do_not_deadlock",
        "test_writing.test_ten_writers_at_once_lose_and_double_nothing",
    ],
    "13. REMOVE TTL where there is none is an error": [
        "clickhouse.test_driver.test_retention_is_the_servers_ttl_and_read_back_from_it",
    ],
}


@pytest.mark.parametrize("trap", TRAPS)
def test_each_trap_has_its_tests(trap: str) -> None:
    for name in TRAPS[trap]:
        module, _, function = name.rpartition(".")
        assert inspect.isfunction(getattr(importlib.import_module(f"tests.deliverylog.{module}"), function, None)), name
