"""The console's pages: HTML rendered on the server, which work without scripts too.

A module has the pages of one topic, and does what ``relay.console.api`` does: the same functions, called here.
``render`` makes pages of ``templates``, ``live`` the parts that a browser polls, ``form_fields`` reads what forms send.
A new module stands in ``_PAGES`` of ``relay.console.app``, which also shows errors; ``render`` has the navigation, and
what a page withholds from a role. ``static/console.js`` draws plots and reads keys, ``static/live.js`` polls.
"""
