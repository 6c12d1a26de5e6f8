-- Wake-ups, where the extension wake_up is there.

-- name: channel
-- Where the wake-ups of a table are announced, and whether it has a trigger that does it. Catalog only; locks nothing.
-- Parameters: table (quoted as in SQL). Result: one row; the channel is NULL when there is no such table.
SELECT
    'openoutbox_' || TO_REGCLASS(%(table)s::text)::oid::text,
    EXISTS (
        SELECT FROM pg_catalog.pg_trigger
        WHERE tgrelid = TO_REGCLASS(%(table)s::text) AND tgname = 'openoutbox_wake_trigger' AND tgenabled <> 'D'
    );

-- name: prepared_transactions
-- How many transactions may be prepared on this server at a time, and whether the table has the trigger of wake-ups, after
-- which none can be. Catalog only; locks nothing. Parameters: table (quoted as in SQL).
SELECT
    CURRENT_SETTING('max_prepared_transactions')::bigint,
    EXISTS (
        SELECT FROM pg_catalog.pg_trigger
        WHERE tgrelid = TO_REGCLASS(%(table)s::text) AND tgname = 'openoutbox_wake_trigger' AND tgenabled <> 'D'
    );

-- name: listen
-- Have wake-ups sent to this connection; needs a session of its own. The channel's name is swapped like a table's.
LISTEN openoutbox_channel;

-- name: announce
-- Send a notification to those that listen on a channel, to see whether it arrives. Touches no table. Parameters: channel.
SELECT PG_NOTIFY(%(channel)s::text, '');
