"""Rude clients of the load: some vanish in the middle, some send what is no request."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
from collections.abc import Sequence
from time import monotonic
from typing import Any

import grpc
import tritonclient.grpc.aio as triton

from afterglow.serve.grpc_tensors import MESSAGES
from benchmarks.serve_soak.clients import Load, triton_inputs
from benchmarks.serve_soak.connection import LONGEST, Connection, infer_body
from benchmarks.serve_soak.malformed import damaged, head_of, malformed
from benchmarks.serve_soak.models import TEXT, SoakModel

EXPECTED = {"200", "400", "404", "405", "413", "415", "501", "closed"}
"""What a malformed request may be answered with over HTTP."""
CODES = {"OK", "INVALID_ARGUMENT", "NOT_FOUND"}
"""The same over gRPC."""
TEXT_SHARE = 0.05
GRPC_SHARE = 0.1
SILENT = 0.2
"""Seconds after which a request that lies about its length is given up."""
_RESET = struct.pack("ii", 1, 0)


async def vanish(load: Load, models: Sequence[SoakModel], seed: int) -> None:
    """Begin requests and go away: before, in the middle of and after the body."""
    chance = random.Random(seed)
    async with triton.InferenceServerClient(f"127.0.0.1:{load.grpc}") as client:

        async def go() -> None:
            question = chance.choice(models).question(chance)
            if chance.random() < 0.2:
                asked = asyncio.create_task(client.infer(question.model, triton_inputs(question)))
                await asyncio.sleep(chance.random() * 0.01)
                asked.cancel()
            else:
                body, header = infer_body(question, binary=True)
                path = f"/v2/models/{question.model}/infer"
                if chance.random() < 0.2:
                    content = {"model": TEXT, "prompt": "ab", "max_tokens": 50, "stream": True}
                    path, body, header = "/v1/completions", json.dumps(content).encode(), ""
                await _half(load.http, path, body, header, chance)
            load.tally.counts["vanished"] += 1

        await load.repeat(go, 2 * load.pause)


async def _half(port: int, path: str, body: bytes, header: str, chance: random.Random) -> None:
    """Send a part of a request, or all, and close or reset the connection."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{header}content-length: {len(body)}\r\n\r\n"
    data = head.encode() + body
    if chance.random() < 0.6:
        data = data[: chance.randrange(len(data))]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await asyncio.sleep(chance.random() * 0.01)
    if chance.random() < 0.5:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.close()


async def send_malformed(load: Load, count: int, seed: int) -> None:
    """Send malformed requests, evenly over the time that there is."""
    chance, began = random.Random(seed), monotonic()
    good = MESSAGES["ModelInferRequest"](model_name="double")
    good.inputs.add(name="x", datatype="FP32", shape=[1, 4]).contents.fp32_contents.extend([1] * 4)
    message = good.SerializeToString()
    async with (
        Connection(load.http) as connection,
        grpc.aio.insecure_channel(f"127.0.0.1:{load.grpc}") as channel,
    ):
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for number in range(count):
            await asyncio.sleep(began + number * (load.until - began) / count - monotonic())
            if chance.random() < GRPC_SHARE:
                status = await _grpc(infer, damaged(message, chance))
                is_expected = status in CODES
            else:
                status = await _http(connection, chance)
                is_expected = status in EXPECTED
            load.tally.statuses[status] += 1
            load.tally.counts["malformed"] += 1
            if not is_expected:
                load.tally.fail(f"a malformed request: {status}")


async def _grpc(infer: Any, data: bytes) -> str:
    try:
        await infer(data, timeout=LONGEST)
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


async def _http(connection: Connection, chance: random.Random) -> str:
    """The status of an answer, or that the connection was closed."""
    request = malformed(chance, TEXT_SHARE)
    head, is_whole = head_of(request, chance)
    try:
        sent = connection.send(head + request.body)
        answer = await (sent if is_whole else asyncio.wait_for(sent, SILENT))
    except (ConnectionError, asyncio.IncompleteReadError):
        connection.close()
        return "closed"
    except TimeoutError:
        connection.close()  # the server waits for the rest, which never comes
        return "closed" if not is_whole else "no answer"
    if not is_whole:
        connection.close()
    elif answer.status >= 400 and b'"error"' not in answer.body:
        return f"{answer.status} without an error: {answer.body[:100]!r} to {head!r}"
    return str(answer.status)
