"""The console's pages: HTML rendered on the server, which work without scripts too.

A module has the pages of one topic, and does what ``relay.console.api`` does: the same functions, called here.
``render`` makes pages of ``templates``, ``live`` the parts that a browser polls, ``form_fields`` reads what forms send.
"""
