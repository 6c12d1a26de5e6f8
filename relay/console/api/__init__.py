"""The admin API below ``/api/v1``: one router for each resource."""
