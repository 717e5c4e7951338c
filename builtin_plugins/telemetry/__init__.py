"""Takes the gateway's figures to Prometheus and OpenTelemetry."""
