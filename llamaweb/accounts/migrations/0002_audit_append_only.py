"""The database itself refuses to change or delete audit events, whoever asks."""

from django.db import migrations

SQLITE_ON = [
    """
    CREATE TRIGGER accounts_auditevent_no_update BEFORE UPDATE ON accounts_auditevent
    BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END
    """,
    """
    CREATE TRIGGER accounts_auditevent_no_delete BEFORE DELETE ON accounts_auditevent
    BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END
    """,
]
SQLITE_OFF = [
    "DROP TRIGGER accounts_auditevent_no_update",
    "DROP TRIGGER accounts_auditevent_no_delete",
]
POSTGRES_ON = [
    """
    CREATE FUNCTION accounts_auditevent_refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'audit events are append-only'; END $$
    """,
    """
    CREATE TRIGGER accounts_auditevent_no_change BEFORE UPDATE OR DELETE ON accounts_auditevent
    FOR EACH ROW EXECUTE FUNCTION accounts_auditevent_refuse()
    """,
    """
    CREATE TRIGGER accounts_auditevent_no_truncate BEFORE TRUNCATE ON accounts_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION accounts_auditevent_refuse()
    """,
]
POSTGRES_OFF = [
    "DROP TRIGGER accounts_auditevent_no_truncate ON accounts_auditevent",
    "DROP TRIGGER accounts_auditevent_no_change ON accounts_auditevent",
    "DROP FUNCTION accounts_auditevent_refuse()",
]


def _run(schema_editor, sqlite, postgres):
    statements = {"sqlite": sqlite, "postgresql": postgres}[schema_editor.connection.vendor]
    for statement in statements:
        schema_editor.execute(statement, params=None)


def forwards(apps, schema_editor):
    _run(schema_editor, SQLITE_ON, POSTGRES_ON)


def backwards(apps, schema_editor):
    _run(schema_editor, SQLITE_OFF, POSTGRES_OFF)


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_initial")]

    operations = [migrations.RunPython(forwards, backwards)]
