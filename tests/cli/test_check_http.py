"""``relay-cli check`` with webhooks: every host of the table, and the endpoints of the waiting events."""

from __future__ import annotations

from pathlib import Path

from relay.localservers.process import free_port
from tests.cli.running import call_cli
from tests.cli.test_check import check
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.servers.identities import Identities
from tests.support.servers.webhooks import WebhookServer


def test_a_whole_relay_on_webhooks_is_fine(
    outbox: Outbox, webhooks: WebhookServer, http_authority: Identities, tmp_path: Path
) -> None:
    outbox.insert([Row("order.paid")])
    before = webhooks.requests()
    variables = {
        "STORAGE_URL": outbox.relay_url,
        "PUBLISHER_URL": webhooks.url,
        "HTTP_SECRETS": "whsec_" + "A" * 40,
        "HTTP_TLS_CA": str(http_authority.ca_file),
        "HTTP_ALLOW_PRIVATE": "true",
    }
    assert check(tmp_path, variables, "--strict") == {}
    printed = call_cli(tmp_path, "check", **variables).stdout
    assert "broker: http: connected; no request was sent" in printed
    assert webhooks.requests() == before
    del variables["HTTP_ALLOW_PRIVATE"]
    [(level, message, _)] = check(tmp_path, variables, status=1)["broker"]
    assert level == "error"
    assert "127.0.0.1 is a loopback address; no request is sent there unless HTTP_ALLOW_PRIVATE=true" in message


def test_what_does_not_answer_and_what_no_endpoint_takes_is_named(
    outbox: Outbox, webhooks: WebhookServer, http_authority: Identities, tmp_path: Path
) -> None:
    outbox.insert([Row("order.paid"), Row("user.signup")])
    down = f"http://127.0.0.1:{free_port()}"
    table = tmp_path / "endpoints.toml"
    rows = [("order.*", webhooks.url), ("never", f"{down}/secret")]
    table.write_text("".join(f'[[endpoints]]\nevents = "{events}"\nurl = "{url}"\n' for events, url in rows))
    variables = {
        "STORAGE_URL": outbox.relay_url,
        "PUBLISHER_TYPE": "http",
        "HTTP_ENDPOINTS_FILE": str(table),
        "HTTP_TLS_CA": str(http_authority.ca_file),
        "HTTP_ALLOW_PRIVATE": "true",
    }
    findings = check(tmp_path, variables, status=1)
    assert [message for _, message, _ in findings["broker"]] == [
        f"destination {down.removeprefix('http://')}: {down}: Connection refused"
    ]
    assert [message for _, message, _ in findings["endpoints"]] == ["no endpoint takes the event type 'user.signup'"]
