r"""An application with SQLAlchemy's ORM: objects note what happened to them, and a commit announces it.

    pip install ./client 'sqlalchemy>=2' 'psycopg[binary]'
    export DATABASE_URL='postgres://user:secret@localhost:5432/app'    # with the table that relay-cli migrate makes
    printf 'customer,amount\nada,30\nbob,20\n' | python examples/app_sqlalchemy.py

``announce`` may be called anywhere in the code of the objects. The events wait on the session; they go in with one
statement before the flush of each commit, in the same transaction, and a rollback forgets them.
"""

import csv
import os
import sys
from uuid import UUID, uuid4

import sqlalchemy
from sqlalchemy import CheckConstraint, event
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, object_session, sessionmaker

from openoutbox import NewEvent, enqueue

TOPIC = os.environ.get("TOPIC", "order.placed")
WAITING = "outbox events"


class Announcing(sessionmaker[Session]):
    """Makes sessions that send the announced events before they commit."""

    def __init__(self, engine: sqlalchemy.Engine) -> None:
        super().__init__(engine)
        event.listen(self, "before_commit", send_announced)
        event.listen(self, "after_soft_rollback", forget_announced)


def announce(session: Session, announced: NewEvent) -> None:
    session.info.setdefault(WAITING, []).append(announced)


def send_announced(session: Session) -> None:
    session.flush()  # what announces when it is flushed has done so now
    if waiting := session.info.pop(WAITING, None):
        enqueue(session, waiting)


def forget_announced(session: Session, _: object) -> None:
    session.info.pop(WAITING, None)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    __table_args__ = (CheckConstraint("amount > 0"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    customer: Mapped[str]
    amount: Mapped[int] = mapped_column(sqlalchemy.BigInteger)


@event.listens_for(Order, "after_insert")
def announce_order(_mapper: object, _connection: object, order: Order) -> None:
    body = {"order_id": str(order.id), "customer": order.customer, "amount": order.amount}
    session = object_session(order)
    assert session is not None
    announce(session, NewEvent(TOPIC, body, partition_key=order.customer))


if __name__ == "__main__":
    engine = sqlalchemy.create_engine(
        sqlalchemy.make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg")
    )
    Base.metadata.create_all(engine)
    orders = [Order(customer=row["customer"], amount=int(row["amount"])) for row in csv.DictReader(sys.stdin)]
    with Announcing(engine).begin() as own:
        own.add_all(orders)
    print(len(orders), "orders imported")
