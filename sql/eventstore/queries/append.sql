-- Appends to one stream: {first position, last position, new version}. What it uses and locks: event_append.
SELECT public.event_append(
    %(tenant)s::UUID, %(stream)s::UUID, %(expected)s::INT, %(types)s::TEXT[], %(metas)s::TEXT[], %(datas)s::TEXT[]
)
