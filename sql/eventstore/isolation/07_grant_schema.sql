-- What the role needs: to see the schema.
GRANT USAGE ON SCHEMA public TO app_role
