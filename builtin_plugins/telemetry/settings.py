"""The settings of telemetry: ``[plugin.telemetry]``."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from hookgate import Section
from hookgate.kit.url_grants import service_url


def _url(text: str) -> str:
    example = "http://localhost:4318/v1/metrics"
    if service_url(text, example=example, secret="`headers` names secrets").path == "/":
        raise ValueError("expected the whole address; collectors mostly listen at /v1/metrics")
    return text


HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$")]
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class OtelSettings(Section):
    """``[plugin.telemetry.otel]``: a collector to which the figures are sent."""

    enabled: bool = False
    """Whether they are sent. Needs the extra `otel`, and a plugin that provides egress."""
    endpoint: Annotated[str, AfterValidator(_url)] = "http://localhost:4318/v1/metrics"
    """The collector's whole address for metrics, OTLP over HTTP."""
    headers: dict[HeaderName, SecretName] = Field(default_factory=dict)
    """Headers of each request, such as `authorization`: each with the name of the secret that
    is its value."""
    interval_seconds: float = Field(default=60.0, ge=1, le=86_400)
    """Seconds from one export to the next."""
    timeout_seconds: float = Field(default=10.0, gt=0, le=600)
    """The limit for one export."""
    service_name: str = Field(default="hookgate", min_length=1)
    """What this gateway is called at the collector: its attribute `service.name`."""


class TelemetrySettings(Section):
    """``[plugin.telemetry]``: where figures go."""

    prometheus: bool = True
    """Whether `GET /metrics` is served."""
    otel: OtelSettings = OtelSettings.by_default()
