"""Who may do what in the console: ``install`` guards an application, ``require`` asks for a role.

Every route needs ``Depends(require(role))``; a route without it, which is not one of the open ones, makes the whole
application fail. Forms carry the hidden field ``csrf_token`` with ``request.state.csrf_token``; scripts send it as the
header ``X-CSRF-Token``. ``request.state.identity`` is who sends the request, ``proof`` what proves it, and ``login``
the browser's login.

``middleware`` admits a request or refuses it, CSRF included: ``origin`` says where it comes from, ``gate`` who sends it
(a token, by ``credentials``, or a cookie, by ``logins``), ``route_roles`` what its route asks for. ``login_routes`` and
``provider_routes`` log in, within the bounds of ``limit``.
"""

from __future__ import annotations

from relay.console.access.access_role import AccessRole, Identity
from relay.console.access.application import install
from relay.console.access.route_roles import require

__all__ = ["AccessRole", "Identity", "install", "require"]
