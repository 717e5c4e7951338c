"""What work beside a turn is run with: apart from who waits for it, contained, and finished."""

# ruff: noqa: I001

from hookgate.core.hooks.tasks import (
    Ended as Ended,
    apart as apart,
    called as called,
    contained_task as contained_task,
    finish as finish,
    stop as stop,
    told as told,
)
