"""Logs of the server: one JSON object a line."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, TextIO


class Log:
    """Writes events to standard error, or to another stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def info(self, event: str, **about: Any) -> None:
        """Write what happened."""
        self._write("info", event, about)

    def error(self, event: str, **about: Any) -> None:
        """Write what went wrong."""
        self._write("error", event, about)

    def _write(self, level: str, event: str, about: dict[str, Any]) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        record = {"time": f"{stamp}.{int(now * 1e3) % 1000:03}Z", "level": level, "event": event}
        record |= {name: value for name, value in about.items() if value != ""}
        stream = self._stream or sys.stderr
        try:
            stream.write(json.dumps(record, default=str) + "\n")
            stream.flush()
        except (OSError, ValueError):  # who reads the log is gone; requests are more important
            return
