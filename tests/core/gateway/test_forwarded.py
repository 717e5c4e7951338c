"""What proxies add is noticed before a listener without tokens; what clients send is not."""

from __future__ import annotations

import pytest
from tests.support.wire import serving

from hookgate.core.gateway.access.origin import forwarded_header

ADDED = {
    "HTTP itself": ("Forwarded", "Via", "CDN-Loop", "Max-Forwards", "Early-Data", "Client-Cert",
                    "Proxy-Connection", "Proxy-Authorization"),
    "nginx, Apache, HAProxy, Traefik": (
        "X-Forwarded-For", "x-forwarded-proto", "X-FORWARDED-HOST", "X-Forwarded-Server",
        "X-Forwarded-Tls-Client-Cert", "X-Forwarded", "Forwarded-For", "X-Real-IP", "X-Real-Port",
        "X-Client-IP", "X-Cluster-Client-IP", "Client-IP", "X-ProxyUser-Ip", "X-Scheme",
        "X-Original-URI", "X-Original-URL", "X-Original-Method", "X-Original-Host",
        "X-Original-Forwarded-For", "X-Rewrite-URL", "Front-End-Https", "X-SSL-Client-Verify",
        "WL-Proxy-Client-IP", "HTTP_X_FORWARDED_FOR", "X_Real_IP",
    ),
    "Envoy": ("X-Envoy-External-Address", "X-Envoy-Attempt-Count"),
    "Cloudflare": ("CF-Connecting-IP", "CF-Connecting-IPv6", "CF-Ray", "CF-IPCountry",
                   "CF-Visitor", "CF-Worker", "Cf-Access-Authenticated-User-Email",
                   "Cf-Access-Jwt-Assertion", "True-Client-IP"),
    "CloudFront and AWS": ("CloudFront-Viewer-Address", "CloudFront-Forwarded-Proto",
                           "X-Amz-Cf-Id", "X-Amzn-Trace-Id", "X-Amzn-Oidc-Data",
                           "X-Amzn-Mtls-Clientcert"),
    "Fastly": ("Fastly-Client-IP", "Fastly-FF", "Fastly-SSL", "X-Varnish"),
    "Akamai": ("Akamai-Origin-Hop", "X-Akamai-Edgescape", "X-Akamai-Config-Log-Detail"),
    "Azure": ("X-Azure-ClientIP", "X-Azure-SocketIP", "X-Azure-FDID", "X-Azure-Ref",
              "X-FD-HealthProbe", "X-ARR-LOG-ID", "X-ARR-SSL", "X-ARR-ClientCert",
              "X-MS-CLIENT-PRINCIPAL", "X-MS-CLIENT-PRINCIPAL-NAME", "X-AppGW-Trace-Id"),
    "Google": ("X-Appengine-User-IP", "X-AppEngine-Country", "X-Cloud-Trace-Context",
               "X-Goog-Authenticated-User-Email", "X-Goog-IAP-JWT-Assertion"),
    "others that host": ("Fly-Client-IP", "Fly-Forwarded-Port", "X-Vercel-Id",
                         "X-Vercel-Forwarded-For", "X-NF-Client-Connection-IP",
                         "X-NF-Request-ID", "DO-Connecting-IP", "Ali-CDN-Real-IP",
                         "Incap-Client-IP", "X-Sucuri-ClientIP", "X-Heroku-Dynos-In-Use",
                         "X-Request-Start", "Rndr-Id", "Cdn-RequestId"),
    "tunnels": ("Ngrok-Skip-Browser-Warning", "Ngrok-Auth-User-Email", "Tailscale-User-Login",
                "Tailscale-User-Name", "Tailscale-Headers-Info", "Tailscale-Funnel-Request"),
    "proxies that authenticate": (
        "Remote-User", "Remote-Email", "Remote-Groups", "X-Remote-User", "X-Auth-Request-User",
        "X-Auth-Request-Email", "X-Authentik-Username", "X-Pomerium-Jwt-Assertion",
        "X-WebAuth-User", "X-Vouch-User", "X-Consumer-Username", "X-Kong-Request-Id",
    ),
    "what no table knows": ("X-Acme-Client-IP", "Acme-Forwarded-For", "X-Acme-Proxy",
                            "X-Proxied-By", "X-Real-Address", "X-Originating-IP", "Source-IP",
                            "X-Acme-ClientIP", "X-Source-Addr", "X-Acme-Cdn", "X-End-User-IP",
                            "Tunnel", "Tunnel-Id", "Acme-Tunnel", "X-Devtunnel-Id",
                            "X-Forwarder-For", "Forwarder", "XForwardedFor",
                            "X-ForwardedFor", "Acme-Forwarding",
                            "X-Tailscale-User", "X-Tailscale-Login", "X-Ngrok-User-Email",
                            "X-Cloudflare-Ray", "X-Acme-User", "Acme-User-Email", "X-Email",
                            "X-OpenWebUI-User-Id", "X-Acme-Groups", "X-Jwt-Assertion", "X-User",
                            "X-Acme-Client-Cert", "X-Tls-Version", "X-Relay", "X-Relayed-By",
                            "X-Acme-Hop", "X-Ingress-Name", "X-Acme-Gateway", "X-Load-Balancer",
                            "X-Edge-Location", "X-Edgescale", "X-Peer", "X-Remote", "X-Proto",
                            "X-Acme-Country", "X-Geo", "X-Acme-Host", "X-Acme-Address",
                            "X_TAILSCALE_USER", "HTTP_TUNNEL", "X-Proxy2-Id", "X-Acmeproxy"),
}  # fmt: skip

SENT = {
    "curl": ("Host", "User-Agent", "Accept", "Content-Type", "Content-Length", "Expect", "Range",
             "Authorization", "Accept-Encoding"),
    "browsers": (
        "Connection", "Cache-Control", "Pragma", "Upgrade", "Upgrade-Insecure-Requests", "Origin",
        "Referer", "Cookie", "DNT", "TE", "Priority", "Accept-Language", "If-None-Match",
        "If-Modified-Since", "Last-Event-ID", "Alt-Used", "Service-Worker", "Purpose",
        "Save-Data", "Device-Memory", "Viewport-Width", "X-Requested-With",
        "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Fetch-User", "Sec-CH-UA",
        "Sec-CH-UA-Mobile", "Sec-CH-UA-Platform", "Sec-GPC", "Sec-Purpose",
        "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions",
        "Sec-WebSocket-Protocol", "Access-Control-Request-Method",
        "Access-Control-Request-Headers", "Access-Control-Request-Private-Network",
    ),
    "SDKs of model vendors": (
        "X-Api-Key", "Api-Key", "Anthropic-Version", "Anthropic-Beta",
        "Anthropic-Dangerous-Direct-Browser-Access", "OpenAI-Organization", "OpenAI-Project",
        "OpenAI-Beta", "X-Stainless-Lang", "X-Stainless-Package-Version", "X-Stainless-OS",
        "X-Stainless-Arch", "X-Stainless-Runtime", "X-Stainless-Runtime-Version",
        "X-Stainless-Async", "X-Stainless-Retry-Count", "X-Stainless-Read-Timeout",
        "X-Stainless-Timeout", "X-Stainless-Helper-Method", "X-Client-Request-Id",
        "Idempotency-Key", "X-Goog-Api-Key", "X-Goog-Api-Client", "HTTP-Referer", "X-Title",
        "X-App", "X-Client-Version", "X-Session-Id", "X-Goog-User-Project",
        "Anthropic-User-Profile-Id", "Helicone-Auth", "X-LiteLLM-Tags", "X-Portkey-Trace-Id",
    ),
    "tracing": ("Traceparent", "Tracestate", "Baggage", "B3", "X-B3-TraceId", "X-Request-Id",
                "X-Correlation-Id", "Sentry-Trace"),
    "other programs": ("Proximity", "X-Document", "Viable", "Do", "X-Tip", "X-Ship-To",
                       "X-Clip", "MCP-Session-Id", "MCP-Protocol-Version", "X-User-Agent",
                       "X-Source-Map", "X-Real-Time", "X-Client-Name", "Address", "Date"),
}  # fmt: skip


@pytest.mark.parametrize("names", ADDED.values(), ids=ADDED)
def test_what_proxies_add_is_known(names: tuple[str, ...]) -> None:
    assert [name for name in names if forwarded_header(["Host", name]) != name] == []
    assert [name for name in names if forwarded_header([name.upper()]) is None] == []


@pytest.mark.parametrize("names", SENT.values(), ids=SENT)
def test_what_clients_send_is_no_sign_of_a_proxy(names: tuple[str, ...]) -> None:
    assert [name for name in names if forwarded_header([name]) is not None] == []


async def test_each_of_them_is_refused_before_a_listener_without_tokens() -> None:
    async with serving() as served:
        for name in (name for names in ADDED.values() for name in names):
            status, answer = await served.get("/v1/status", headers={name: "192.0.2.1"})
            assert (name, status, answer["error"]["data"]["code"]) == (name, 400, "forwarded")
        # What a connection needs is the client's own to say, and no test's.
        framing = {"Host", "Connection", "Upgrade", "TE", "Expect", "Content-Length", "Origin"}
        sent = {name: "1" for names in SENT.values() for name in names if name not in framing}
        del sent["Range"], sent["If-Modified-Since"], sent["Content-Type"], sent["Cookie"]
        del sent["Authorization"], sent["X-Api-Key"]  # read, and these are wrong
        assert (await served.get("/v1/status", headers=sent))[0] == 200
