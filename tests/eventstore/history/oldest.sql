-- The store of the first release, before versions were recorded. A test runs its parts both, gapless or settled, and last.

-- part: both
CREATE TABLE IF NOT EXISTS public.Event (
    SequenceNum BIGINT NOT NULL,
    TenantId UUID NOT NULL,
    StreamId UUID NOT NULL,
    Version INT NOT NULL,
    Type TEXT NOT NULL,
    Meta JSONB NOT NULL,
    Data JSONB,
    LogDate TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_event_sequencenum PRIMARY KEY (TenantId, SequenceNum),
    CONSTRAINT uk_event_streamid_version UNIQUE (TenantId, StreamId, Version)
) PARTITION BY LIST (TenantId);

CREATE TABLE IF NOT EXISTS public.event_tenants PARTITION OF public.event DEFAULT PARTITION BY HASH (TenantId);

DO $$
BEGIN
    FOR bucket IN 0..63 LOOP
        EXECUTE format(
            'CREATE TABLE IF NOT EXISTS public.event_tenants_%s PARTITION OF public.event_tenants '
            'FOR VALUES WITH (MODULUS 64, REMAINDER %s) PARTITION BY LIST (TenantId)',
            to_char(bucket, 'FM00'), bucket
        );
    END LOOP;
END
$$;

CREATE TABLE IF NOT EXISTS public.event_feed (
    SequenceNum BIGINT NOT NULL,
    TenantId UUID NOT NULL,
    StreamId UUID NOT NULL,
    Version INT NOT NULL,
    Type TEXT NOT NULL,
    CONSTRAINT pk_event_feed PRIMARY KEY (SequenceNum)
);

CREATE OR REPLACE FUNCTION public.event_feed_inserted() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO public.event_feed (SequenceNum, TenantId, StreamId, Version, Type)
    SELECT SequenceNum, TenantId, StreamId, Version, Type FROM inserted;
    RETURN NULL;
END
$$;

CREATE OR REPLACE TRIGGER trg_EventFeed AFTER INSERT ON public.event
REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION public.event_feed_inserted();

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
$$;

CREATE TABLE IF NOT EXISTS public.event_subscription (
    Name TEXT NOT NULL,
    Position BIGINT NOT NULL,
    Holder UUID,
    HeldUntil TIMESTAMPTZ,
    UpdatedAt TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT pk_event_subscription PRIMARY KEY (Name)
);

CREATE TABLE IF NOT EXISTS public.event_store (
    OnlyRow BOOLEAN NOT NULL DEFAULT TRUE,
    Positions TEXT NOT NULL,
    Notify BOOLEAN NOT NULL,
    CONSTRAINT pk_event_store PRIMARY KEY (OnlyRow),
    CONSTRAINT check_only_row CHECK (OnlyRow),
    CONSTRAINT check_positions CHECK (Positions IN ('gapless', 'settled'))
);

-- part: gapless
CREATE TABLE IF NOT EXISTS public.event_position (
    OnlyRow BOOLEAN NOT NULL DEFAULT TRUE,
    Last BIGINT NOT NULL,
    CONSTRAINT pk_event_position PRIMARY KEY (OnlyRow),
    CONSTRAINT check_only_row CHECK (OnlyRow)
);

INSERT INTO public.event_position (Last) VALUES (0) ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION public.event_take_positions(p_count INT) RETURNS BIGINT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_last BIGINT;
BEGIN
    UPDATE public.event_position SET Last = Last + p_count WHERE OnlyRow
    RETURNING Last INTO v_last;
    RETURN v_last;
END
$$;

ALTER TABLE public.event ALTER COLUMN SequenceNum SET DEFAULT public.event_take_positions(1);

CREATE OR REPLACE FUNCTION public.event_append(
    p_tenant UUID, p_stream UUID, p_expected INT, p_types TEXT[], p_metas TEXT[], p_datas TEXT[]
) RETURNS BIGINT[]
LANGUAGE plpgsql AS $$
DECLARE
    v_count CONSTANT INT := pg_catalog.cardinality(p_types);
    v_last CONSTANT BIGINT := public.event_take_positions(v_count);
    v_version INT := p_expected;
    v_inserted INT;
    v_lowest INT;
BEGIN
    IF p_expected = -1 THEN
        EXECUTE 'SELECT Version FROM public.event WHERE TenantId = $1 AND StreamId = $2 ORDER BY Version DESC LIMIT 1'
        INTO v_version USING p_tenant, p_stream;
        v_version := coalesce(v_version, 0);
    END IF;
    IF p_expected <= 0 THEN
        INSERT INTO public.event (SequenceNum, TenantId, StreamId, Version, Type, Meta, Data)
        SELECT v_last - v_count + n, p_tenant, p_stream, v_version + n, type, meta::JSONB, data::JSONB
        FROM unnest(p_types, p_metas, p_datas) WITH ORDINALITY AS given (type, meta, data, n);
        RETURN ARRAY[v_last - v_count + 1, v_last, v_version + v_count];
    END IF;
    WITH inserted AS (
        INSERT INTO public.event (SequenceNum, TenantId, StreamId, Version, Type, Meta, Data)
        SELECT
            CASE WHEN n = 0 THEN -1 ELSE v_last - v_count + n END,
            p_tenant, p_stream, v_version + n, type, meta::JSONB, data::JSONB
        FROM (
            SELECT 0, p_types[1], p_metas[1], p_datas[1]
            UNION ALL
            SELECT n, type, meta, data
            FROM unnest(p_types, p_metas, p_datas) WITH ORDINALITY AS given (type, meta, data, n)
        ) AS new (n, type, meta, data)
        ON CONFLICT DO NOTHING
        RETURNING Version
    )

    SELECT count(*), min(Version) INTO v_inserted, v_lowest FROM inserted;
    IF v_inserted <> v_count OR v_lowest <> v_version + 1 THEN
        EXECUTE 'SELECT count(*) FROM public.event WHERE TenantId = $1 AND StreamId = $2 AND Version BETWEEN $3 AND $4'
        INTO v_inserted USING p_tenant, p_stream, v_version + 1, v_version + v_count;
        IF v_inserted < v_count THEN
            RAISE EXCEPTION 'a position up to % is taken: event_position is behind the events', v_last
            USING ERRCODE = 'unique_violation';
        END IF;
        RAISE EXCEPTION 'the stream has another version than expected' USING ERRCODE = 'ES001';
    END IF;
    RETURN ARRAY[v_last - v_count + 1, v_last, v_version + v_count];
END
$$;

CREATE OR REPLACE FUNCTION public.event_horizon(OUT Horizon BIGINT, OUT Newest BIGINT)
LANGUAGE sql STABLE AS $$
    SELECT Last, Last FROM public.event_position WHERE OnlyRow
$$;

GRANT SELECT ON public.event_position TO app_role;

-- part: settled
CREATE SEQUENCE IF NOT EXISTS public.event_sequencenum_seq AS BIGINT CACHE 1 OWNED BY public.event.SequenceNum;

CREATE OR REPLACE FUNCTION public.event_register() RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
    v_store CONSTANT INT := pg_catalog.hashoid('public.event'::REGCLASS::OID);
    v_drawn BIGINT;
BEGIN
    IF pg_catalog.current_setting('eventstore.registered', TRUE) IS DISTINCT FROM v_store::TEXT THEN
        v_drawn := pg_catalog.pg_sequence_last_value('public.event_sequencenum_seq'::REGCLASS);
        IF v_drawn IS NULL THEN -- none drawn yet
            SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO v_drawn
            FROM public.event_sequencenum_seq;
        END IF;
        PERFORM
            pg_catalog.pg_advisory_xact_lock_shared(v_store, v_drawn::BIT(32)::INT),
            pg_catalog.set_config('eventstore.registered', v_store::TEXT, TRUE);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION public.event_next_position() RETURNS BIGINT
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM public.event_register();
    RETURN pg_catalog.nextval('public.event_sequencenum_seq');
END
$$;

ALTER TABLE public.event ALTER COLUMN SequenceNum SET DEFAULT public.event_next_position();

CREATE OR REPLACE FUNCTION public.event_append(
    p_tenant UUID, p_stream UUID, p_expected INT, p_types TEXT[], p_metas TEXT[], p_datas TEXT[]
) RETURNS BIGINT[]
LANGUAGE plpgsql AS $$
DECLARE
    v_count CONSTANT INT := pg_catalog.cardinality(p_types);
    v_version INT := p_expected;
    v_inserted INT;
    v_lowest INT;
    v_first BIGINT;
    v_last BIGINT;
BEGIN
    PERFORM
        pg_catalog.pg_advisory_xact_lock(
            pg_catalog.uuid_hash_extended(p_tenant, pg_catalog.uuid_hash_extended(p_stream, 0))
        ),
        public.event_register();
    IF p_expected = -1 THEN
        EXECUTE 'SELECT Version FROM public.event WHERE TenantId = $1 AND StreamId = $2 ORDER BY Version DESC LIMIT 1'
        INTO v_version USING p_tenant, p_stream;
        v_version := coalesce(v_version, 0);
    END IF;
    IF p_expected <= 0 THEN
        v_first := pg_catalog.nextval('public.event_sequencenum_seq');
        INSERT INTO public.event (SequenceNum, TenantId, StreamId, Version, Type, Meta, Data)
        SELECT
            CASE WHEN n = 1 THEN v_first ELSE pg_catalog.nextval('public.event_sequencenum_seq') END,
            p_tenant, p_stream, v_version + n, type, meta::JSONB, data::JSONB
        FROM unnest(p_types, p_metas, p_datas) WITH ORDINALITY AS given (type, meta, data, n);
        RETURN ARRAY[v_first, pg_catalog.currval('public.event_sequencenum_seq'), v_version + v_count];
    END IF;
    WITH inserted AS (
        INSERT INTO public.event (SequenceNum, TenantId, StreamId, Version, Type, Meta, Data)
        SELECT
            CASE WHEN n = 0 THEN -1 ELSE pg_catalog.nextval('public.event_sequencenum_seq') END,
            p_tenant, p_stream, v_version + n, type, meta::JSONB, data::JSONB
        FROM (
            SELECT 0, p_types[1], p_metas[1], p_datas[1]
            UNION ALL
            SELECT n, type, meta, data
            FROM unnest(p_types, p_metas, p_datas) WITH ORDINALITY AS given (type, meta, data, n)
        ) AS new (n, type, meta, data)
        ON CONFLICT DO NOTHING
        RETURNING Version, SequenceNum
    )

    SELECT count(*), min(Version), min(SequenceNum), max(SequenceNum)
    INTO v_inserted, v_lowest, v_first, v_last FROM inserted;
    IF v_inserted <> v_count OR v_lowest <> v_version + 1 THEN
        EXECUTE 'SELECT count(*) FROM public.event WHERE TenantId = $1 AND StreamId = $2 AND Version BETWEEN $3 AND $4'
        INTO v_inserted USING p_tenant, p_stream, v_version + 1, v_version + v_count;
        IF v_inserted < v_count THEN
            RAISE EXCEPTION 'a position is taken: event_sequencenum_seq is behind the events'
            USING ERRCODE = 'unique_violation';
        END IF;
        RAISE EXCEPTION 'the stream has another version than expected' USING ERRCODE = 'ES001';
    END IF;
    RETURN ARRAY[v_first, v_last, v_version + v_count];
END
$$;

CREATE OR REPLACE FUNCTION public.event_horizon(OUT Horizon BIGINT, OUT Newest BIGINT)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_store CONSTANT INT := pg_catalog.hashoid('public.event'::REGCLASS::OID);
BEGIN
    IF pg_catalog.pg_is_in_recovery() THEN
        RAISE EXCEPTION 'positions cannot be told to be settled on a standby; read from the primary'
        USING ERRCODE = 'feature_not_supported';
    END IF;
    SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END INTO Newest
    FROM public.event_sequencenum_seq;
    SELECT least(Newest, min(Newest - ((Newest - objid::BIGINT) & 4294967295))) INTO Horizon
    FROM pg_catalog.pg_locks
    WHERE
        locktype = 'advisory' AND granted AND objsubid = 2
        AND classid = ((v_store::BIGINT + 4294967296) & 4294967295)::TEXT::OID
        AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database());
END
$$;

GRANT SELECT, USAGE ON SEQUENCE public.event_sequencenum_seq TO app_role;

-- part: last
CREATE OR REPLACE TRIGGER trg_EventRecorded AFTER INSERT ON public.event
REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION public.NotifyEvent();

INSERT INTO public.event_store (Positions, Notify) VALUES ('%(positions)s', true);

-- Its isolate_tenants, for the role of the test.
GRANT USAGE ON SCHEMA public TO app_role;
ALTER TABLE public.event ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS tenant_isolation ON public.event;
CREATE POLICY tenant_isolation ON public.event
USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID);
ALTER TABLE public.event_feed ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS tenant_isolation ON public.event_feed;
CREATE POLICY tenant_isolation ON public.event_feed
USING (TenantId = NULLIF(current_setting('eventstore.tenant', TRUE), '')::UUID);
GRANT SELECT, INSERT ON public.event TO app_role;
GRANT SELECT ON public.event_feed, public.event_store TO app_role;

-- Its provision_tenant, for the tenant of the tests.
CREATE TABLE public.event_847ed1889e8b4d238eb49126ebd77a4d (
    LIKE public.event INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION
);
ALTER TABLE public.event_tenants_62 ATTACH PARTITION public.event_847ed1889e8b4d238eb49126ebd77a4d
FOR VALUES IN ('847ed188-9e8b-4d23-8eb4-9126ebd77a4d');
