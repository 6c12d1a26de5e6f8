"""The variables that say who may use the console. ``relay.settings.variables`` has the table of groups."""

from __future__ import annotations

from typing import Annotated, Literal

from relay.settings.address import DEFAULT_CONSOLE_PORT
from relay.settings.fields import VariableGroup, choice, instead_of, variable
from relay.settings.value_kinds import ConsoleRoles, Duration, Issuer, Listen, Networks, Secret, Text, WebOrigin


class Admitting(VariableGroup):
    """Console: who may use it"""

    console_port: Listen = variable(
        DEFAULT_CONSOLE_PORT,
        "Address of the console. Any but a loopback address (127.0.0.1, ::1, localhost) needs a way to log in.",
    )
    console_url: WebOrigin | None = variable(
        None,
        "How browsers reach the console, without a path: `https://outbox.example.com`. Requests for another host are "
        "refused; OIDC on any but a loopback address needs it.",
        shown="unset",
    )
    console_tokens_file: Text | None = variable(
        None,
        "File of lines `role name hash`, one for each token; `relay-cli access token` prints a line.",
        shown="unset",
    )
    api_token: Secret | None = variable(
        None,
        "Bearer token of `/api/*` with the role reader, at least 32 characters where other machines reach the console. "
        "The relay serves no such path and warns.",
        shown="unset",
    )
    api_token_file: Text | None = instead_of("API_TOKEN", "token")
    console_secret: Secret | None = variable(
        None,
        "Key that signs the cookies of browsers, at least 32 characters; unset: a random one, and logins end with a "
        "restart of the console.",
        shown="unset",
    )
    console_secret_file: Text | None = instead_of("CONSOLE_SECRET", "key")
    console_login_lifetime: Duration = variable("8h", "How long a login of a browser lasts.")
    console_trusted_proxies: Networks | None = variable(
        None,
        "Addresses of proxies, such as `10.0.0.7, 10.1.0.0/16`, whose `X-Forwarded-For` names the client; the limit of "
        "logins counts by client.",
        shown="unset: none",
    )
    console_oidc_issuer: Issuer | None = variable(
        None, "OpenID Connect: the provider's issuer, `https://login.example.com/realms/ops`.", shown="unset"
    )
    console_oidc_client_id: Text | None = variable(None, "OpenID Connect: the console's client id.", shown="unset")
    console_oidc_client_secret: Secret | None = variable(
        None, "OpenID Connect: the secret of that client.", shown="unset"
    )
    console_oidc_client_secret_file: Text | None = instead_of("CONSOLE_OIDC_CLIENT_SECRET", "secret")
    console_oidc_scope: Text = variable(
        "openid profile email", "OpenID Connect: scopes to request; some providers need another one to name groups."
    )
    console_oidc_name_claim: Text = variable(
        "preferred_username",
        "OpenID Connect: claim that names the user in the console and its audit; `sub` where users choose their names.",
    )
    console_oidc_roles_claim: Text = variable(
        "roles",
        "OpenID Connect: claim that holds a user's roles or groups, a string or a list; dots name nested members: "
        "`realm_access.roles`.",
    )
    console_oidc_roles: ConsoleRoles = variable(
        '{"reader": "reader", "operator": "operator", "admin": "admin"}',
        "OpenID Connect: the role for each value of that claim, as JSON; of several the highest counts.",
    )
    console_oidc_other_role: Annotated[Literal["none", "reader"], *choice("none", "reader")] = variable(
        "none", "OpenID Connect: the role of users that CONSOLE_OIDC_ROLES does not name; `none` refuses them."
    )
