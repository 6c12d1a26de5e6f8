-- Announces a statement's new events on channel eventrecorded as sequencenum/tenant/stream/version/type.
-- PostgreSQL refuses payloads of 8,000 bytes and more: a type above 7,800 bytes is cut to its first 1,950 characters.
CREATE OR REPLACE FUNCTION public.NotifyEvent() RETURNS TRIGGER
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify(
        'eventrecorded',
        SequenceNum || '/' || pg_catalog.replace(TenantId::TEXT, '-', '') || '/'
        || pg_catalog.replace(StreamId::TEXT, '-', '') || '/' || Version || '/'
        || CASE WHEN pg_catalog.octet_length(Type) > 7800 THEN pg_catalog.left(Type, 1950) ELSE Type END
    )
    FROM inserted;
    RETURN NULL;
END
$$
