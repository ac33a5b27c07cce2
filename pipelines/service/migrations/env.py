"""What alembic runs: the revisions, in the transaction of `pipelines.service.migrations.migrate`."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
