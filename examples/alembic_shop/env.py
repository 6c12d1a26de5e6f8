"""Alembic's environment: migrations of an application, of which one makes the outbox table.

pip install ./client 'psycopg[binary]' alembic 'sqlalchemy>=2'
export DATABASE_URL='postgres://user:secret@localhost:5432/app'
alembic --config examples/alembic_shop/alembic.ini upgrade head
"""

import os

import sqlalchemy
from alembic import context

from openoutbox.alembic import include_name

url = sqlalchemy.make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg")

if context.is_offline_mode():  # alembic upgrade head --sql
    context.configure(url=url, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    with sqlalchemy.create_engine(url).connect() as connection:
        # The outbox has no model here: autogenerate would drop it.
        context.configure(connection=connection, include_name=include_name)
        with context.begin_transaction():
            context.run_migrations()
