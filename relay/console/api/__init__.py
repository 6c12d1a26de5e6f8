"""The admin API below ``/api/v1``: one router for each resource, in a module with what its operations take and return.

``models`` has what several share, ``log_models`` and ``store_models`` what is long. ``requests`` has the headers, roles
and filters that operations ask for, and keeps payloads and headers from readers as ``models.stored`` does. A new router
stands in ``_RESOURCES`` of ``relay.console.app``; ``document`` adds the errors to what FastAPI says of it.
"""
