"""What proxies, tunnels and content networks add to a request, so that one is noticed.

A listener without tokens takes whoever reaches it for its owner. A header that only something
in between would add says that somebody else is the real client.

The names come from the documentation of the products themselves. What no table knows yet is
judged by the words of its name: whatever speaks of a way between client and gateway, or of who
the client is, was added on that way, since a client has no need to say it. That goes for every
name but those that clients are known to send, so that what nobody has heard of is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = frozenset(
    (
        # HTTP itself (RFC 8470), nginx, IIS and the URL rewriters of both
        "early-data", "rewrite-url", "host", "request-start", "queue-start", "front-end-https",
        # Varnish, Squid, Heroku
        "varnish", "squid-error", "surrogate-capability", "connect-time", "total-route-time",
        # AWS, Google
        "amzn-trace-id", "cloud-trace-context", "serverless-authorization",
    )
)  # fmt: skip
"""Names, without ``x-``, whose words give nothing away."""

_PREFIXES = (
    # content networks: Cloudflare, CloudFront, Fastly, Akamai, Alibaba, Imperva, Sucuri
    "cf-", "cloudfront-", "amz-cf-", "fastly-", "akamai-", "ali-", "incap-", "sucuri-",
    "eagleeye-",
    # clouds and hosts: AWS load balancers, Azure, App Service, App Engine, Vercel, Netlify, Fly,
    # DigitalOcean, Heroku, Render, Railway
    "amzn-mtls-", "amzn-oidc-", "azure-", "arr-", "appgw-", "fd-", "appengine-", "vercel-", "nf-",
    "fly-", "do-", "heroku-", "rndr-", "railway-",
    # proxies and gateways: Envoy, Traefik, Kong, Apache
    "envoy-", "traefik-", "kong-", "consumer-", "original-",
    # proxies that authenticate: Authelia, oauth2-proxy, Authentik, Pomerium, Vouch, Azure
    "auth-request-", "authelia-", "authentik-", "authenticated-", "pomerium-", "vouch-", "webauth-",
    "ms-client-principal", "ms-token-",
)  # fmt: skip
"""What the names of a vendor begin with, without ``x-``."""

_CLIENTS = frozenset(
    (
        "host", "origin", "user-agent", "x-user-agent", "http-referer", "x-goog-user-project",
    )
)  # fmt: skip
"""What clients send although its words are those of the rule below."""

_CLIENT_PREFIXES = (
    # Browsers alone can set the first two; the others are SDKs of model vendors and MCP.
    "sec-", "access-control-", "anthropic-", "openai-", "x-stainless-", "mcp-",
)  # fmt: skip

_BETWEEN = re.compile(
    r"""
    # Wherever it stands, also within a word: X-Forwarder-For, XForwardedFor, Devtunnel-Id.
    forward | prox(?:y|ied) | tunnel | tailscale | ngrok | cloudflare | ingress | funnel
    # A word of its own, or its beginning.
    | (?:^|-) (?: relay | gateway | balanc | upstream | downstream | bastion | edge | vpn ) [a-z]*
    | (?:^|-) (?: cdn | via | hops? | lb | waf | nat | mesh | node ) (?:-|$)
    """,
    re.VERBOSE,
)
"""What speaks of a way between client and gateway."""

_WHOSE = re.compile(
    r"""
    # Whose address is told is told by somebody in between, and so is who it is.
    (?:^|-) (?:
        ips? | ipv[46] | addr | remote | peer | visitor | viewer | external
        | real-?(?:ip|port|client)
        | (?:client|real|connecting|source|src|origin|original|originating|user|socket|true
          |end-?user) -? (?:ip|ips|ipv4|ipv6|addr|address|port|host)
        | users? | user-?(?:name|id|info|email) | e?mail | login | logon | groups? | roles?
        | principal | identity | subject | assertion | jwt | claims? | certs? | certificate
        | ssl | tls | dn | proto | scheme | country | city | geo(?:ip)? | asn | latitude | longitude
    ) (?:-|$)
    | .-(?: address | host ) (?:-|$)
    """,
    re.VERBOSE,
)
"""What says who the client is, where it is, or how it came."""


def forwarded_header(names: Iterable[str]) -> str | None:
    """Return the first header that a proxy has added, if there is one."""
    for name in names:
        # Some servers and scripts write `_` for `-`, and none of these names differ by it.
        plain = name.lower().replace("_", "-")
        if plain in _CLIENTS or plain.startswith(_CLIENT_PREFIXES):
            continue
        bare = plain.removeprefix("http-").removeprefix("x-")
        if (
            bare in _NAMES
            or bare.startswith(_PREFIXES)
            or _BETWEEN.search(bare)
            or _WHOSE.search(bare)
        ):
            return name
    return None
