"""A receiver of webhooks that counts every order once, however often its request arrives.

    pip install ./client fastapi uvicorn 'standardwebhooks>=1.1' 'psycopg[binary,pool]'
    export DATABASE_URL='postgres://user:secret@localhost:5432/app' SECRET="whsec_$(openssl rand -base64 32)"
    relay-cli inbox migrate --with dead-letters --storage-url "$DATABASE_URL"
    uvicorn --app-dir examples consumer_webhook:app --port 8000

The relay has PUBLISHER_TYPE=http, PUBLISHER_URL=http://localhost:8000/events, HTTP_SECRETS="$SECRET" and, since that is
no public address, HTTP_ALLOW_PRIVATE=true. It repeats a request until the answer is a 2xx. The inbox marks the event in
the transaction that has the effect: a repeat finds the mark and changes nothing. The answer follows that transaction.
`relay-cli inbox prune` deletes old marks.

An event whose handling fails five times becomes a dead letter in openoutbox_inbox_tries, long before the relay's own
attempts (RETRY_MAX_ATTEMPTS, 25) are used up. A request that no relay signed is refused and leaves nothing.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from fastapi import FastAPI, Request, Response
from psycopg_pool import AsyncConnectionPool
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from openoutbox import Message, inbox

CONSUMER = "revenue"

TABLE = """
SELECT pg_advisory_xact_lock(hashtext('revenue')); -- of two workers that start at once, the later one finds the table
CREATE TABLE IF NOT EXISTS revenue (customer text PRIMARY KEY, total bigint NOT NULL)
"""
ADD = """
INSERT INTO revenue (customer, total) VALUES (%(customer)s, %(amount)s)
ON CONFLICT (customer) DO UPDATE SET total = revenue.total + EXCLUDED.total
"""
SAID = {"handled": "counted", "repeat": "seen before"}

pool = AsyncConnectionPool(os.environ["DATABASE_URL"], open=False)
webhook = Webhook(os.environ["SECRET"])


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with pool:
        async with pool.connection() as connection:
            await connection.execute(TABLE)
        yield


app = FastAPI(lifespan=lifespan)


async def count(connection: psycopg.AsyncConnection, message: Message) -> None:
    await connection.execute(ADD, json.loads(message.payload))


@app.post("/events")
async def receive(request: Request) -> Response:
    """204: the event is done with. 503: it failed, or another request is at work on it, and it is to come again."""
    body = await request.body()
    try:
        webhook.verify(body, dict(request.headers), json_parse=False)
        message = Message.from_webhook(request.headers, body)
    except (WebhookVerificationError, ValueError):  # ValueError: MessageError, or a signature of another form
        return Response(status_code=401)
    done = await inbox.process_async(pool.connection, message, count, consumer=CONSUMER, attempts=5)
    print(done.event_id, SAID.get(done.outcome, f"{done.outcome} {done.error!r}"), flush=True)
    return Response(status_code=204 if done.acknowledge else 503)
