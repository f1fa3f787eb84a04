"""Malformed requests for an application that answers them without a socket."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter

from benchmarks.serve_soak.malformed import LENGTH, malformed


async def answered(app, path, content, headers):
    """The status and the body that an application answers with."""
    sent: list = []
    given = iter([{"type": "http.request", "body": content, "more_body": False}])

    async def receive():
        found = next(given, None)
        if found is None:
            await asyncio.Event().wait()
        return found

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


async def fuzz(app, count: int, seed: int) -> Counter:
    """Send malformed requests, and count the statuses of the answers."""
    chance, statuses = random.Random(seed), Counter()
    for _ in range(count):
        path, body, headers = malformed(chance)
        if chance.random() < 0.02:
            headers = [LENGTH]
        status, text = await answered(app, path, body, headers)
        statuses[status] += 1
        assert b"Traceback" not in text
        if status != 200:
            assert isinstance(json.loads(text)["error"], str)
    return statuses
