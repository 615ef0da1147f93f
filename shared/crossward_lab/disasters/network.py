"""The network between a site and the coordinator. A request may be lost, doubled, late or cut, and so may its answer.

The coordinator's application is called as its server would call it. What passes is shown to the judge, in both
directions; a liar at either end may change it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from crossward_lab.disasters.loop import wait

if TYPE_CHECKING:
    from crossward_lab.disasters.host import Process


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it goes over the wire."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it goes over the wire."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Wire(httpx.BaseTransport):
    """Carries the requests of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send, wait, and answer; or fail as a network does."""
        process = self._process
        process.step("sends")
        path, _, query = request.url.raw_path.decode("ascii").partition("?")
        headers = tuple((name.lower(), value) for name, value in request.headers.items())
        call = Call(request.method, path, query, headers, request.read())
        patience = request.extensions.get("timeout", {}).get("read") or 30.0
        reply = wait(carry(process, call, patience))
        process.step("has an answer")
        return httpx.Response(reply.status, headers=list(reply.headers), content=reply.body, request=request)


async def carry(process: Process, call: Call, patience: float) -> Reply:
    """One request and its answer over the network, in so many seconds at most."""
    world = process.world
    call = world.judge.sent(process, world.lies.about_call(process, call))
    fate = world.fate_of_message(process)
    if fate.lost:
        world.tell(f"{process.name}: {call.method} {call.path} is lost")
        await asyncio.sleep(patience)
        raise httpx.ReadTimeout("the network lost it")
    if fate.doubled:
        world.tell(f"{process.name}: {call.method} {call.path} goes twice")
        again = fate.delay + world.draw.expovariate(0.2)
        world.network.run(_under_way(process, _deliver(process, call, again)))
    if fate.delay > 1.0:
        world.tell(f"{process.name}: {call.method} {call.path} is late by {fate.delay:.0f} s")
    # What was sent arrives also when the sender has ended, or waits no longer.
    arriving = world.network.run(_under_way(process, _deliver(process, call, fate.delay, cut=fate.cut)))
    try:
        async with asyncio.timeout(patience):
            reply = await asyncio.shield(arriving)
    except TimeoutError:
        raise httpx.ReadTimeout("no answer came") from None
    if reply is None:
        raise httpx.ConnectError("nobody listens")
    if fate.answer_lost:
        world.tell(f"{process.name}: the answer to {call.method} {call.path} is lost")
        await asyncio.sleep(patience)
        raise httpx.ReadTimeout("the network lost the answer")
    if fate.answer_cut:
        world.tell(f"{process.name}: the answer to {call.method} {call.path} is cut")
        raise httpx.RemoteProtocolError("the answer ended in the middle")
    await asyncio.sleep(fate.answer_delay)
    return world.lies.about_reply(process, call, reply)


async def _under_way(process: Process, delivery: Coroutine[Any, Any, Reply | None]) -> Reply | None:
    """A request of a host on its way, until it was answered or nobody was there."""
    process.host.under_way += 1
    try:
        return await delivery
    finally:
        process.host.under_way -= 1


async def _deliver(process: Process, call: Call, delay: float, *, cut: bool = False) -> Reply | None:
    """Let a request arrive; the answer, or None where nobody listens or the one who did has ended."""
    world = process.world
    await asyncio.sleep(delay)
    server = world.listening()
    if server is None:
        return None
    world.judge.arrived(process, call)
    serving = server.process.run(serve(server.app, call, cut=cut))
    await asyncio.wait([serving])
    if serving.cancelled() or ((error := serving.exception()) is not None and not server.process.alive):
        return None
    if error is not None:
        raise error
    reply: Reply | None = serving.result()
    return reply


async def serve(app: Any, call: Call, *, cut: bool = False) -> Reply | None:
    """What an application answers; None if its caller has gone."""
    scope: MutableMapping[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": call.method,
        "scheme": "http",
        "path": call.path,
        "raw_path": call.path.encode(),
        "query_string": call.query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in call.headers],
        "client": ("192.0.2.1", 1),
        "server": ("192.0.2.2", 80),
    }
    whole = {"type": "http.request", "body": call.body, "more_body": False}
    half = {"type": "http.request", "body": call.body[: len(call.body) // 2], "more_body": True}
    coming = [half, {"type": "http.disconnect"}] if cut else [whole]
    answer: list[Any] = []

    async def receive() -> Any:
        if coming:
            return coming.pop(0)
        if cut:
            return {"type": "http.disconnect"}
        return await asyncio.get_running_loop().create_future()  # the caller stays

    async def send(message: Any) -> None:
        answer.append(message)

    await app(scope, receive, send)
    if not answer or cut:
        return None
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer[0]["headers"])
    return Reply(answer[0]["status"], headers, b"".join(part.get("body", b"") for part in answer[1:]))
