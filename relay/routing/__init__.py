"""Where events go: rules from event types to destinations. Pure, and read once, at the start.

``rules`` decides, ``template`` fills in a destination's name, ``reported`` is what a heartbeat says of the rules.
``relay.settings.routes_file`` reads ROUTES_FILE and checks each rule; ``relay.engine.destination`` hands events to the
publisher of the destination, by the port ``relay.core.places``.
"""
