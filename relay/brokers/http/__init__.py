"""The publisher of webhooks: events as HTTP requests, signed by the rules of Standard Webhooks.

``publisher`` has one ``host``, the endpoint, with its connections and what waits for one; ``window`` says how many.
``endpoints`` reads URL and secrets, ``origin`` says what may be shown of them. ``connecting``, ``addresses`` and
``proxy`` lead to a ``session``; ``request`` and ``signing`` are what it sends, ``reading`` and ``deadline`` its answer.
"""
