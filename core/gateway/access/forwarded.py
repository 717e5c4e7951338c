"""What proxies, tunnels and content networks add to a request, so that one is noticed.

A listener without tokens takes whoever reaches it for its owner. A header that only something
in between would add says that somebody else is the real client.

The names come from the documentation of the products themselves. What no table knows yet is
caught by what its name says: that it was forwarded, by a proxy, or whose address is meant.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["forwarded_header"]

_NAMES = frozenset(
    (
        # HTTP itself: RFC 7239, RFC 9110 (sections 7.6.2 and 7.6.3), RFC 8586, RFC 8470, RFC 9440
        "forwarded", "via", "max-forwards", "cdn-loop", "early-data",
        "client-cert", "client-cert-chain",
        # nginx, its ingress, IIS and the URL rewriters of both
        "x-scheme", "x-url-scheme", "x-rewrite-url", "x-host", "x-request-start",
        "x-queue-start", "front-end-https", "ssl-client-cert",
        # Varnish, Squid, Akamai
        "x-varnish", "x-squid-error", "surrogate-capability", "x-bluecoat-via",
        # Heroku
        "connect-time", "total-route-time",
        # AWS, Google
        "x-amzn-trace-id", "x-cloud-trace-context", "x-iap-jwt-assertion",
        "x-goog-iap-jwt-assertion", "x-serverless-authorization", "x-ssl",
    )
)  # fmt: skip

_PREFIXES = (
    # content networks: Cloudflare, CloudFront, Fastly, Akamai, Alibaba, Imperva, Sucuri, Bunny
    "cf-", "cloudfront-", "x-amz-cf-", "fastly-", "akamai-", "x-akamai-", "ali-", "incap-",
    "x-sucuri-", "cdn-", "x-cdn-", "x-edge-", "eagleeye-",
    # clouds and hosts: AWS load balancers, Azure, App Service, App Engine, Vercel, Netlify, Fly,
    # DigitalOcean, Heroku, Render, Railway
    "x-amzn-tls-", "x-amzn-mtls-", "x-amzn-oidc-", "x-azure-", "x-arr-", "x-appgw-", "x-fd-",
    "x-appengine-", "x-vercel-", "x-nf-", "fly-", "do-", "x-heroku-", "rndr-", "x-railway-",
    # tunnels: ngrok, Tailscale serve and funnel, Dev Tunnels
    "ngrok-", "tailscale-", "x-tunnel-", "x-ms-tunnel-",
    # proxies and gateways: Envoy, HAProxy, Traefik, Kong, Apache
    "x-envoy-", "x-haproxy-", "x-traefik-", "x-kong-", "x-consumer-", "x-lb-",
    "x-original-", "x-ssl-client-", "x-client-cert-", "ssl-client-",
    # proxies that authenticate: Authelia, oauth2-proxy, Authentik, Pomerium, Vouch, Azure, Google
    "remote-", "x-remote-", "x-auth-request-", "x-authelia-", "x-authentik-", "x-authenticated-",
    "x-pomerium-", "x-vouch-", "x-webauth-", "x-ms-client-principal", "x-ms-token-",
    "x-goog-authenticated-user-",
)  # fmt: skip

_SAYS_SO = re.compile(
    r"""
    (?:^|-) (?: forward(?:ed)? | prox(?:y|ied) [a-z]* | cdn | via ) (?:-|$)
    # Whose address is told is told by somebody in between: the client has no need to.
    | (?:client|real|connecting|remote|source|src|origin|original|originating|user|peer|visitor
        |viewer|socket|external|true|end-?user) -? (?:ip|ips|ipv4|ipv6|addr|address|port)
      (?:-|$)
    """,
    re.VERBOSE,
)


def forwarded_header(names: Iterable[str]) -> str | None:
    """Return the first header that a proxy has added, if there is one."""
    for name in names:
        # Some servers and scripts write `_` for `-`, and none of these names differ by it.
        plain = name.lower().replace("_", "-")
        if plain in _NAMES or plain.startswith(_PREFIXES) or _SAYS_SO.search(plain):
            return name
    return None
