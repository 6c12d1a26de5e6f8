"""What is built from ROUTE_PREFIX, ROUTES_FILE and DESTINATIONS_FILE, and what is shown of where events go."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from relay.app import publishers
from relay.app.destinations import Destinations
from relay.app.duplicates import duplicate_window
from relay.app.relay_identity import fingerprint
from relay.brokers.null import NullPublisher
from relay.core.destination import DestinationState
from relay.core.errors import ConfigError
from relay.core.event import Fence
from relay.core.known_secrets import KNOWN_SECRETS
from relay.core.outcome import ACKNOWLEDGED, Transient
from relay.core.outside import shown
from relay.core.ports import Publisher
from relay.core.recorder import SettledAttempt
from relay.deliverylog.mapping import Naming, log_entry
from relay.engine.destination.routed import RoutedPublisher
from relay.settings.settings import Settings
from relay.telemetry.prometheus import exposition_of
from tests.brokers.harness.base import Collector, make_event

ROUTES = """
[[route]]
type = "drop"
drop = true
[[route]]
type = "a"
via = "second"
to = "b.{tenant}"
"""


FENCE = Fence(datetime(2030, 1, 1, tzinfo=UTC))


def settings(**variables: str) -> Settings:
    return Settings.from_env({"STORAGE_URL": "postgres://127.0.0.1/db", **variables})


@pytest.fixture
def several(tmp_path: Path) -> Settings:
    (tmp_path / "routes").write_text(ROUTES)
    (tmp_path / "destinations").write_text(
        '[first]\ntype = "null"\n[second]\nurl = "nats://user:s3cr3t@h"\nnats_publish_timeout = "5m"\n'
    )
    return settings(DESTINATIONS_FILE=str(tmp_path / "destinations"), ROUTES_FILE=str(tmp_path / "routes"))


def test_a_single_one_with_a_rate_is_watched_by_its_name() -> None:
    built = Destinations(settings(PUBLISHER_TYPE="null", PUBLISHER_NAME="audit", PUBLISHER_RATE="7.5"))
    [(name, member)] = built.publisher.members.items()
    assert (name, member.waiting and member.waiting.rate) == ("audit", 7.5)
    text = exposition_of(lambda: built.read([member]), "r1")
    assert 'openoutbox_destination_rate{destination="audit",relay_id="r1"} 7.5' in text
    assert 'openoutbox_destination_rate_waiting{destination="audit",relay_id="r1"} 0.0' in text


def test_the_log_masks_the_secrets_that_only_the_files_hold(tmp_path: Path) -> None:
    (tmp_path / "endpoints").write_text(
        f'[[endpoints]]\nevents = "a"\nurl = "https://h/"\nsecrets = "whsec_{"c2VjcmV0" * 5}"\n'
    )
    (tmp_path / "destinations").write_text(
        '[first]\nurl = "redis://user:qvxzj-qvxzj@h"\n'
        f'[second]\ntype = "http"\nhttp_endpoints_file = "{tmp_path / "endpoints"}"\n'
    )
    Destinations(settings(DESTINATIONS_FILE=str(tmp_path / "destinations")))
    said = "the library said qvxzj-qvxzj and whsec_" + "c2VjcmV0" * 5
    assert shown(said, known=KNOWN_SECRETS.pattern) == "the library said *** and ***"


def test_without_routes_there_is_nothing_around_the_publisher() -> None:
    plain = Destinations(settings(PUBLISHER_TYPE="null"))
    assert type(plain.publisher) is NullPublisher
    assert plain.traced is plain.logged is None
    assert plain.warnings == []
    single: Any = SimpleNamespace(state=DestinationState.AWAY, parts={}, waiting=None)
    text = exposition_of(lambda: plain.read([single]), "r1")
    assert 'openoutbox_destination_state{destination="null",relay_id="r1"} 4.0' in text
    assert "openoutbox_events_dropped_total" not in text
    assert list(plain.by_name([single])) == ["null"]


async def test_a_prefix_or_routes_stand_before_one_publisher() -> None:
    routed = Destinations(settings(PUBLISHER_TYPE="null", ROUTE_PREFIX="shop."))
    assert isinstance(routed.publisher, RoutedPublisher)
    assert routed.publisher.name == "null"
    assert routed.logged is None
    assert routed.traced is not None
    assert routed.traced(make_event("a")) == ("null", "shop.a")


async def test_spans_and_the_delivery_log_name_the_destination_of_each_event(several: Settings) -> None:
    built = Destinations(several)
    assert list(built.publisher.members) == ["first", "second"]
    assert built.traced is not None
    assert built.logged is not None
    acme = make_event("a", headers='{"tenant_id": "acme"}')
    assert (built.traced(acme), built.logged(acme)) == (("nats", "b.acme"), ("second", "nats"))
    assert (built.traced(make_event("x")), built.logged(make_event("x"))) == (("null", "x"), ("first", "null"))
    for nowhere in ("drop", "a"):
        assert built.traced(make_event(nowhere)) == ("none", nowhere)
        assert built.logged(make_event(nowhere)) == ("none", "none")


async def test_of_an_event_for_several_spans_name_all_and_the_log_those_that_lack_it(
    several: Settings, tmp_path: Path
) -> None:
    (tmp_path / "routes").write_text('[[route]]\ntype = "a"\nvia = ["first", "second"]\nto = ["x", "y"]\n')
    built = Destinations(several)
    assert built.plan.fan_out
    assert built.traced is not None
    assert built.logged is not None
    event = make_event("a")
    assert (built.traced(event), built.logged(event)) == (("null,nats", "x,y"), ("first,second", "null,nats"))
    assert built.logged(event._replace(acknowledged_by="first")) == ("second", "nats")
    naming = Naming("tenant_id", "relay", "several", built.logged)
    failed, whole = event._replace(acknowledged_by="first"), event._replace(acknowledged_by="second")
    logged = [
        log_entry(SettledAttempt(failed, Transient("T", "no"), FENCE, 0.0), naming),
        log_entry(SettledAttempt(whole, ACKNOWLEDGED, FENCE, 0.0), naming),
    ]
    assert [(one.attempt.destination_id, one.attempt.destination_type) for one in logged] == [
        ("second", "nats"),
        ("first,second", "null,nats"),
    ]
    assert [one.event.matched_destination_ids for one in logged] == [["second"], ["first", "second"]]


async def test_drops_and_destinations_are_counted(several: Settings) -> None:
    built = Destinations(several)
    members = [*built.publisher.members.values()]
    sink = Collector()
    await built.publisher.publish([make_event("drop")], sink)
    text = exposition_of(lambda: built.read(members), "r1")
    assert 'openoutbox_events_dropped_total{event_type="drop",relay_id="r1"} 1.0' in text
    assert 'openoutbox_destination_up{destination="second",relay_id="r1"} 1.0' in text
    assert 'openoutbox_destination_state{destination="second",relay_id="r1"} 1.0' in text


def test_warnings_name_the_destination(several: Settings) -> None:
    [warning] = [one for one in Destinations(several).warnings if "not verified" not in one]
    assert warning.startswith("destination second: LEASE_TIMEOUT=3m is not longer than NATS_PUBLISH_TIMEOUT=5m")


@pytest.mark.parametrize(
    ("url", "to", "why"),
    [
        ("sqs://eu-central-1", "d.{header:region}", ""),
        ("sns://eu-central-1", "{header:region}.{header:X-Raw-Headers}", "X-Raw-Headers is not in the table"),
        ("nats://h:4222", "{header:X-Raw-Headers}", ""),
    ],
)
def test_a_route_by_header_that_claims_cannot_tell_apart_is_named(url: str, to: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "routes").write_text(f'[[route]]\ntype = "a"\nto = "b.{{type}}"\n[[route]]\ntype = "c"\nto = "{to}"\n')
    built = Destinations(settings(PUBLISHER_URL=url, ROUTES_FILE=str(tmp_path / "routes")))
    route = "route 2 sends events of one type to several destinations by the header region and X-Raw-Headers: "
    assert [one.startswith(route + why) for one in built.warnings] == [True] * bool(why)


@pytest.mark.parametrize("others", [0, 100])
def test_so_is_one_to_many_endpoints(tmp_path: Path, others: int) -> None:
    (tmp_path / "routes").write_text('[[route]]\ntype = "c"\nto = "d.{header:region}"\n')
    patterns = ["d.*", *(f"e{number}" for number in range(others))]
    (tmp_path / "endpoints").write_text(f'[[endpoints]]\nevents = {patterns}\nurl = "https://hooks.example"\n')
    files = {"ROUTES_FILE": str(tmp_path / "routes"), "HTTP_ENDPOINTS_FILE": str(tmp_path / "endpoints")}
    built = Destinations(settings(PUBLISHER_TYPE="http", **files))
    named = [
        one for one in built.warnings if one.startswith("route 1 sends events of one type to several destinations")
    ]
    assert ["more than 100 patterns" in one for one in named] == [True] * bool(others)


def test_relays_with_a_destination_in_common_are_alike(several: Settings, tmp_path: Path) -> None:
    (tmp_path / "other").write_text('[main]\nurl = "nats://h:4222"\n')
    other = settings(DESTINATIONS_FILE=str(tmp_path / "other"))
    assert set(fingerprint(other).split()) < set(fingerprint(several).split())


def test_the_duplicate_window_is_that_of_the_nats_destinations(tmp_path: Path) -> None:
    (tmp_path / "one").write_text('[main]\ntype = "null"\n')
    assert duplicate_window(settings(DESTINATIONS_FILE=str(tmp_path / "one"))) == 0.0


def test_a_file_with_problems_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "routes").write_text('[[route]]\ntype = "a"\n')
    with pytest.raises(ConfigError, match="route 1: it has neither to nor drop"):
        Destinations(settings(PUBLISHER_TYPE="null", ROUTES_FILE=str(tmp_path / "routes")))


@pytest.mark.parametrize("url", ["kafka://127.0.0.1:9092", "https://127.0.0.1/hook"])
def test_what_is_stamped_or_signed_for_others_has_the_time_that_the_daemon_names(url: str) -> None:
    """The daemon names the database's clock, which the claims measure."""
    publisher: Any = publishers.build_publisher(settings(PUBLISHER_URL=url), lambda: 5.0)
    assert publisher._options.now() == 5.0


def test_every_destination_has_the_time_that_the_daemon_names(
    several: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []
    build = publishers.build_publisher

    def recording(own: Settings, now: Callable[[], float]) -> Publisher:
        times.append(now())
        return build(own, now)

    monkeypatch.setattr(publishers, "build_publisher", recording)
    Destinations(several, lambda: 5.0)
    assert times == [5.0, 5.0]
