"""Make the outbox table, with its indexes."""

from alembic import op

from openoutbox import create_statements

revision = "0001"
down_revision = None


def upgrade() -> None:
    for statement in create_statements():
        op.execute(statement)


def downgrade() -> None:
    op.drop_table("openoutbox_events")
