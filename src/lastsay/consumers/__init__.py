"""Where the answer goes: tool result, lifecycle events, telemetry."""
