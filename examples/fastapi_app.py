"""A service whose sign-ups are announced: the user and the event are committed together, or neither is.

STORAGE_URL=postgres://... uvicorn examples.fastapi_app:app
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from psycopg.errors import UniqueViolation
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel

from relay.client import NewEvent, enqueue_async

TABLES = """
CREATE TABLE IF NOT EXISTS users (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email TEXT NOT NULL UNIQUE
)
"""


class SignUp(BaseModel):
    """What is asked for."""

    email: str


class User(BaseModel):
    """Who has signed up."""

    id: int
    email: str


@asynccontextmanager
async def lifespan(service: FastAPI) -> AsyncIterator[None]:
    async with AsyncConnectionPool(os.environ["STORAGE_URL"], min_size=1, max_size=5, open=False) as pool:
        async with pool.connection() as connection:
            await connection.execute(TABLES)
        service.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/users", status_code=201)
async def sign_up(wanted: SignUp) -> User:
    try:
        async with app.state.pool.connection() as connection:  # one transaction: committed here, or rolled back
            cursor = await connection.execute("INSERT INTO users (email) VALUES (%s) RETURNING id", (wanted.email,))
            (user_id,) = await cursor.fetchone()
            user = User(id=user_id, email=wanted.email)
            await enqueue_async(connection, NewEvent("user.signup", user.model_dump(), partition_key=str(user.id)))
    except UniqueViolation:
        raise HTTPException(409, "this address has signed up already") from None
    return user
