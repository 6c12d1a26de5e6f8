"""Passwords do not survive masking, whatever surrounds them, and the rest of the text does."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.secrets import OPEN_PARAMETERS, is_secret, mask_secrets, mask_url, mask_values


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://u:pw@h:5432/db?sslmode=require", "postgres://u:***@h:5432/db?sslmode=require"),
        ("postgres://u:p@w/x@h/db", "postgres://u:***@h/db"),
        ("postgres://h/db", "postgres://h/db"),
        ("postgres://h/db?user=u&password=pw&sslmode=require", "postgres://h/db?user=u&password=***&sslmode=require"),
        ("host=h user=u password=pw dbname=d", "host=h user=u password=*** dbname=d"),
        ("host=h password='p w' dbname=d", "host=h password=*** dbname=d"),
        ("nats://token@h:4222", "nats://***@h:4222"),
        ("nats://u:pw@h1,nats://u:pw@h2:4222", "nats://u:***@h1,nats://u:***@h2:4222"),
        ("redis://:pw@h:6379/0", "redis://:***@h:6379/0"),
        ("u:pw@h:9092", "***@h:9092"),
        ("h1:9092,h2:9092", "h1:9092,h2:9092"),
        ("kafka://h:9092?sasl.username=u&sasl.password=pw", "kafka://h:9092?sasl.username=u&sasl.password=***"),
        ("kafka://h:9092?ssl.key.passphrase=pw&x=1", "kafka://h:9092?ssl.key.passphrase=***&x=***"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_urls_inside_other_text_are_masked() -> None:
    text = 'connection to "postgres://u:pw@h/db" failed, then "redis://:pw@h" too (a@b)'

    assert mask_secrets(text) == 'connection to "postgres://u:***@h/db" failed, then "redis://:***@h" too (a@b)'


PARTS = ("qvxzj", "48151")
"""What a secret of these tests consists of; no text around it has either."""
HOSTILE = [
    "{} {}",
    "{}@{}",
    "{}:{}@",
    "{}'{}",
    '{}"{}',
    "{}={}",
    "{}, {}",
    "{}; {}",
    "{}%20{}",
    "{}\\{}",
    "{}?{}",
    "{}#{}",
]


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "Passwd",
        "pwd",
        "pass_word",
        "pass-word",
        "sasl.Password",
        "sslpassword",
        "%70assword",
        "pass%77ord",
        "api-key",
        "apiKey",
        "API_KEY",
        "X-Api-Key",
        "access.token",
        "refreshToken",
        "client_secret",
        "CONSOLE_OIDC_CLIENT_SECRET",
        "privateKey",
        "ssl.key.pem",
        "ssl_key_pem",
        "ssl.key.passphrase",
        "sasl.jaas.config",
        "sasl_jaas_config",
        "sasl.oauthbearer.config",
        "AccountKey",
        "SharedAccessSignature",
        "Authorization",
        "nkey_seed",
        "jwt",
    ],
)
def test_a_secret_of_any_spelling_is_known_by_its_name(name: str) -> None:
    assert is_secret(name)
    value = " ".join(PARTS)
    assert is_free(mask_secrets(f"{name}={value}"))
    assert is_free(mask_secrets(json.dumps({name: value, "other": 1})))
    assert is_free(mask_values(f"refused: {value}", {name: value, "client.id": "refused"}))


@pytest.mark.parametrize(
    "name", [*sorted(OPEN_PARAMETERS), "BATCH_SIZE", "partition_key", "ssl.keystore.location", "author", "sender"]
)
def test_other_names_are_no_secrets(name: str) -> None:
    assert not is_secret(name)
    assert mask_secrets(f"{name}=shown") == f"{name}=shown"


def is_free(text: str) -> bool:
    """Whether no part of the secret is in the text."""
    return not [part for part in PARTS if part in text]


SHAPES = [
    "kafka://h:9092?sasl.password={}",
    "kafka://h:9092?sasl.password={}&security.protocol=SSL",
    "kafka://h:9092?security.protocol=SSL&sasl.jaas.config={}",
    "kafka://h:9092?foreign.option={}",
    "kafka://u:{}@h:9092",
    "kafka://u:{}@h:9092?security.protocol=SSL",
    "u:{}@h:9092",
    "nats://{}@h",
    "nats://u:{}@h1,nats://u:{}@h2",
    "redis://:{}@h/0",
    "postgres://u:{}@h/d?sslmode=require",
    "postgres://h/d?user=u&password={}&sslmode=require",
]


@pytest.mark.parametrize("secret", [shape.format(*PARTS) for shape in HOSTILE])
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_of_a_secret_in_a_url_remains(shape: str, secret: str) -> None:
    if shape == "nats://{}@h" and ":" in secret:
        return  # the user's name and a password: the name is shown
    assert is_free(mask_url(shape.replace("{}", secret)))


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";'


@pytest.mark.parametrize("secret", [shape.format(*PARTS) for shape in HOSTILE if "=" not in shape])
@pytest.mark.parametrize(
    "shape",
    [
        'refused: "{}"',
        "{}",
        "kafka://h:9092?sasl.jaas.config={}",
        "sasl.jaas.config = {}",
        "{{'sasl.jaas.config': '{}'}}",
        "%3Fsasl.jaas.config={}&x=1",
    ],
)
def test_nothing_of_a_jaas_text_remains(shape: str, secret: str) -> None:
    text = shape.replace("{}", JAAS.replace("{}", secret))

    assert is_free(mask_secrets(text))
    assert is_free(mask_url("kafka://h:9092?sasl.jaas.config=" + JAAS.replace("{}", secret)))


@pytest.mark.parametrize("secret", [shape.format(*PARTS) for shape in HOSTILE])
@pytest.mark.parametrize(
    "shape",
    [
        "cannot connect to kafka://h:9092?sasl.password={}",
        "cannot connect to kafka://h:9092?sasl.password={}&security.protocol=SSL today",
        "cannot connect to postgres://u:{}@h:5432/d",
        "cannot connect to postgres://u:{}@h:5432/d, nor to nats://u:{}@h",
        "cannot connect to amqp://u:x@y {}@h",
        'cannot connect to "postgres://u:{}@h/d" now',
        "cannot connect to 'redis://:{}@h:6379', nor to 'redis://:{}@h2'",
        "host=h user=u password={} dbname=d",
        "password={}",
        "export KAFKA_SASL_PASSWORD={}",
        "nats://u:%40{}%40@h",
    ],
)
def test_nothing_of_a_secret_in_other_text_remains(shape: str, secret: str) -> None:
    assert is_free(mask_secrets(shape.replace("{}", secret)))


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_under_a_secret_name_does_not_remain(value: object) -> None:
    for wrapped in ({"password": [value, PARTS[0]]}, {"a": {"client-secret": {"b": PARTS[0], "c": value}}}):
        assert is_free(mask_secrets(json.dumps(wrapped)))
        assert is_free(mask_secrets(json.dumps({"body": json.dumps({"n": wrapped})})))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"token": "{} {}"}),
        json.dumps({"token": 48151}),
        json.dumps({"api key": '{}"{}'}),
        repr({"password": "{} {}"}),
        repr({"password": "{}'{}"}),
        json.dumps({"message": json.dumps({"password": '{} "{}"'})}),
        "user:{}:x@{}@host:9092 is refused",
        "kafka%3A%2F%2Fuser%3A{}%3A{}%40host is refused",
        "Authorization: Bearer {}.{}",
        "'Authorization': 'Basic {}{}=='",
        '{"authorization": "Bearer {} {}"}',
        "amqp://u:{}'{}@h refused",
    ],
)
def test_nothing_of_a_secret_in_json_headers_or_encoded_urls_remains(text: str) -> None:
    for part in PARTS:
        text = text.replace("{}", part, 1)

    assert is_free(mask_secrets(text))


@pytest.mark.parametrize(
    "text",
    [
        "nats://n1:4222,nats://n2:4222 do not answer",
        "kafka://broker:9092 does not answer",
        "event 0190b0a0 of user@example.com at 12:00:01",
        "PUBLISHER_URL: its scheme is not a Kafka scheme; write kafka://user@host",
        "API_TOKEN_FILE: '/run/secrets/token' cannot be read",
        "send a token: Authorization: Bearer TOKEN",
        'FATAL: password authentication failed for user "u"',
        '{"batch_size": 500, "event_type": "token.created"}',
        "https://docs.example.com/a?b=c#d",
        "write postgres://user:***@host:5432/d?sslmode=verify-full and percent-encode what is special (@ is %40)",
        "write host:9092,host2:9092 or kafka://user:***@host:9092, and percent-encode (@ is %40, ? is %3F)",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    expected = text.replace("kafka://user@host", "kafka://***@host")

    assert mask_secrets(text) == expected


@given(st.text())
def test_masking_never_fails_and_masks_no_more_a_second_time(text: str) -> None:
    mask_url(text)
    once = mask_secrets(text)
    assert mask_secrets(once) == once


LETTERS = "q7vXz48151kWpR3mT9bN2cY6"


@pytest.mark.parametrize(
    "text",
    [
        "password: {}",
        "Password : '{}'",
        'db.password: "{}"',
        "x-api-key: {}",
        "X-Auth-Token: {}",
        "Authorization: Token {}",
        "authorization: {}",
        "Authorization: ApiKey {}",
        "Proxy-Authorization: Negotiate {}",
        'Authorization: Digest username="u", response="{}"',
        "Cookie: session={}",
        "Set-Cookie: sid={}; Path=/",
        "session_id={}",
        "--password {}",
        "mysql -u root --token '{}' -h x",
        '"password" => "{}"',
        'password := "{}"',
        "<password>{}</password>",
        '<db:password type="x">{}</db:password>',
        "ALTER ROLE u PASSWORD '{}'",
        "CREATE USER u IDENTIFIED BY '{}'",
        'password "{}";',
        "password%3D{}%26a%3Db",
        "%22password%22%3A%22{}%22",
        "https://a.blob.core.windows.net/c?sv=1&sig={}",
        "https://hooks.slack.com/services/T0000/B0000/{}",
        "https://discord.com/api/webhooks/1234/{}",
        "AKIAQ7VXZ48151KWPR3M",
        "ghp_{}{}",
        "github_pat_{}",
        "glpat-{}",
        "xoxb-1234-{}",
        "sk_live_{}",
        "sk-proj-{}",
        "AIza{}",
        "ya29.{}",
        "eyJhbGciOiJIUzI1NiJ9.{}.{}",
        "npm_{}{}",
        "SG.{}.{}",
        "hf_{}",
        "seed SUAABCDEFGHIJKLMNOPQRSTUVWXYZ234567ABCDEFGHIJKLMNOPQRSTUVW",
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n{}\n-----END RSA PRIVATE KEY-----",
        "db:5432:app:user:{}",
        "passcode={}",
        "auth={}",
        '{"pass": "{}"}',
        "DB_PASS={}",
        "pw={}",
    ],
)
def test_the_usual_shapes_of_a_secret_are_masked(text: str) -> None:
    secret = text.replace("{}", LETTERS)

    masked = mask_secrets(secret)

    assert LETTERS not in masked
    assert "***" in masked


SHAPES_OF_64_KB = {
    "encoded URLs": ("%40", "%3A%2F%2F", " b"),
    "encoded logins": ("", "%3A%2F%2F@", ""),
    "users": ("@ ", "-a:", ""),
    "users without a sign": ("@ ", "a:", ""),
    "signs": ("@ ", "-", ""),
    "bare logins": ("", "a:b@ ", ""),
    "open logins": ("", "a:@", ""),
    "at": ("", "@", ""),
    "logins": ("", "a://u:p@h ", ""),
    "URLs without logins": ("@ ", "a://u:p ", ""),
    "quotes in a URL": ('"x://', '" ', "@"),
    "quoted URLs": ("", '"x://a ', "@"),
    "both logins": ("", "x://u:p@h u:p@h ", ""),
    "assignments": ("", "password=a host=b ", ""),
    "in an open quote": ('" ', "password=a host=b ", ""),
    "in two quotes": ("'", '"password=a" ', ""),
    "blanks": ("password=", " ", "x"),
    "commas": ("password=", ",", "x"),
    "names": ("", "a ", "="),
    "JSON": ("", '"password": "a", ', ""),
    "open JSON": ("", '"password": "', ""),
    "backslashes": ("=", "\\", ""),
    "escaped quotes": ("=", '\\"', ""),
    "quotes": ("=", '"', ""),
    "schemes": ("", "bearer ", ""),
    "percent": ("=", "%", ""),
    "dots": ("=", "a.", ""),
    "lines": ("", "password=x\n", ""),
    "colons": ("", "password:", ""),
    "keys": ("", "-----BEGIN PRIVATE KEY-----", ""),
    "web tokens": ("", "eyJ-", ""),
    "issued tokens": ("", "sk-ghp_", ""),
    "files of passwords": ("", "a:5432:", ""),
    "tags": ("", "<password", ""),
    "arguments": ("", "--password ", ""),
    "encoded names": ("", "password%3D", ""),
    "verbs": ("", "password '", ""),
}


@pytest.mark.parametrize("shape", SHAPES_OF_64_KB)
def test_masking_twice_as_much_takes_twice_as_long(shape: str) -> None:
    """What takes quadratic time takes four times as long, and the suite's timeout for some shapes."""
    before, piece, after = SHAPES_OF_64_KB[shape]
    texts = [before + piece * (size // len(piece)) + after for size in (32_768, 65_536)]

    for _ in range(5):  # another process may slow one of the two down
        half, whole = (min(processor_time(text) for _ in range(3)) for text in texts)
        if whole < max(3 * half, 0.02):
            return
    pytest.fail(f"{half * 1000:.1f} ms for 32 kB, {whole * 1000:.1f} ms for 64 kB")


def processor_time(text: str) -> float:
    began = time.thread_time()
    mask_secrets(text)
    return time.thread_time() - began
