"""What every destination must pass, this project's and others': a pytest plugin, imported by tests alone.

``harness`` is what the author of a destination implements, ``suite`` the cases of a publisher alone, ``laws`` the two
laws with a whole relay, ``plugin`` their fixtures, ``waiting`` their deadlines. See docs/guide/own-destination.md.
"""
