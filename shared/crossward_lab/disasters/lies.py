"""Liars: a party or a coordinator that sends something else than its service would, and signs it all the same."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crossward.protocol import keys
from crossward.protocol.canonical import canonical
from crossward.protocol.envelopes import to_sign
from crossward_lab.disasters.network import Call, Reply
from crossward_lab.disasters.plan import Kind
from crossward_service.http.signing import Signer
from crossward_site.identity.service import KEY

if TYPE_CHECKING:
    from crossward_lab.disasters.history import World
    from crossward_lab.disasters.host import Process

LIE = 0.15
"""How often a liar lies."""


class Lies:
    """Who lies in a history, and what they make of a message."""

    def __init__(self, world: World) -> None:
        self._world = world
        kinds = world.plan.kinds
        self.by_coordinator = Kind.LYING_COORDINATOR in kinds
        self.liars: set[str] = set()
        if Kind.LYING_SOURCE in kinds:
            self.liars.add("source-1")
        if Kind.LYING_TARGET in kinds:
            self.liars.add("target-1")

    def lies(self, process: Process) -> bool:
        """Whether this process is a liar's."""
        return process.host.name in self.liars

    def about_call(self, process: Process, call: Call) -> Call:
        """What a site sends."""
        if not self.lies(process) or not call.body or self._world.calm or self._world.draw.random() > LIE:
            return call
        key = keys.load(process.host.folder / KEY)
        body = self._changed(call.body, key)
        if body == call.body:
            return call
        self._world.tell(f"{process.name}: lies in {call.path}")
        signer = Signer(process.host.name, keys.key_id(key), key, clock=process.now, word=process.word)
        signed = {
            name.lower(): value for name, value in signer.headers(call.method, call.path, call.query, body).items()
        }
        headers = {name: value for name, value in call.headers if name != "content-length"} | signed
        return replace(call, body=body, headers=tuple(headers.items()))

    def about_reply(self, process: Process, call: Call, reply: Reply) -> Reply:
        """What a site is answered."""
        if not self.by_coordinator or not reply.body or self._world.calm or self._world.draw.random() > LIE:
            return reply
        body = self._changed(reply.body, keys.load(self._world.coordinator.folder / "coordinator.key"))
        if body != reply.body:
            self._world.tell(f"coordinator: lies to {process.name} about {call.path}")
        headers = tuple((name, value) for name, value in reply.headers if name.lower() != "content-length")
        return replace(reply, body=body, headers=headers)

    def _changed(self, body: bytes, key: Ed25519PrivateKey) -> bytes:
        """A message that says something else, signed anew where it is signed."""
        try:
            message = json.loads(body)
        except ValueError:
            return body
        draw = self._world.draw
        envelopes = [item for item in _walk(message) if isinstance(item, dict) and "payloadType" in item]
        if envelopes and draw.random() < 0.7:
            envelope = draw.choice(envelopes)
            inside = json.loads(base64.b64decode(envelope["payload"]))
            self._change_one(inside)
            payload = canonical(inside)
            signature = key.sign(to_sign(envelope["payloadType"], payload))
            envelope["payload"] = base64.b64encode(payload).decode()
            envelope["signatures"] = [{"keyid": keys.key_id(key), "sig": base64.b64encode(signature).decode()}]
        else:
            self._change_one(message)
        return canonical(message)

    def _change_one(self, message: Any) -> None:
        """Change one value somewhere inside."""
        draw = self._world.draw
        places = [(item, name) for item in _walk(message) for name in _names(item)]
        if not places:
            return
        item, name = draw.choice(places)
        value = item[name]
        if isinstance(value, bool):
            item[name] = not value
        elif isinstance(value, int):
            item[name] = max(0, value + draw.choice((-1, 1, -1000, 1000, 10**6)))
        elif isinstance(value, float):
            item[name] = value * draw.choice((0.0, 0.5, 2.0))
        elif isinstance(value, str) and value:
            place = draw.randrange(len(value))
            item[name] = value[:place] + draw.choice("0a9f-") + value[place + 1 :]
        elif isinstance(item, dict) and draw.random() < 0.5:
            del item[name]
        elif isinstance(value, list) and value:
            item[name] = draw.choice((value[:-1], value + value[-1:]))


def _walk(value: Any) -> list[Any]:
    """A value and everything inside it that holds others."""
    if isinstance(value, dict):
        return [value, *(found for item in value.values() for found in _walk(item))]
    if isinstance(value, list):
        return [value, *(found for item in value for found in _walk(item))]
    return []


def _names(item: Any) -> list[Any]:
    return list(item) if isinstance(item, dict) else list(range(len(item)))
