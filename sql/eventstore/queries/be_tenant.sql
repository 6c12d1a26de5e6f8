-- Makes the session one tenant's, where row-level security is on.
SELECT set_config('eventstore.tenant', %(tenant)s, FALSE)
