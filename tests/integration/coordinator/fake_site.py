"""A hospital in a few lines: signs, trains for real on simulated records, keeps a ledger in memory, publishes."""

from __future__ import annotations

import time

import numpy as np

from crossward.client.http import NEVER, HttpClient
from crossward.privacy.budget import nano_epsilon
from crossward.protocol import keys, versions
from crossward.protocol.canonical import canonical, sha256
from crossward.protocol.constants import FilterKind
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward.protocol.ledger.lines import Line, OpenBody, ReleaseBody, ReserveBody, SeatsBody
from crossward.protocol.ledger.rules import Replay
from crossward.protocol.tasks import DeclineMessage, HeartbeatMessage, ResultMessage, TaskMessage
from crossward.study.wire import open_inputs, open_study, to_message, to_model
from crossward.study.work import charged_cells, levels, train
from crossward_service.http.signing import Signer


class FakeSite:
    """One party. What it has published stays: asked again, it sends the same bytes."""

    def __init__(self, url, name, hospital, budget=100.0):
        self.url, self.name, self.hospital = url, name, hospital
        self.key = keys.generate()
        self.replay, self.lines, self.confirmed = Replay(), [], 0
        self.results, self._clients = {}, {}
        self.append(OpenBody(1, 20, FilterKind.BASIC, nano_epsilon(budget), 10**15))
        self.append(SeatsBody(1, "5" * 64))

    # -- who ------------------------------------------------------------------------------------------------------
    def join(self, code):
        # Signed as well, which nobody asks for here and nobody minds.
        body = {"code": code, "public_key": keys.public_text(self.key), "protocol": versions.newest()}
        answer = self.call("POST", "/v1/parties", body=body).json()
        self.coordinator_key = keys.public_key(answer["coordinator"]["public_key"])
        return answer

    def call(self, method, path, *, url=None, key=None, **options):
        return self._client(url or self.url, key or self.key).request(method, path, **options)

    def _client(self, url, key):
        if (url, key) not in self._clients:
            signer = Signer(self.name, keys.key_id(key), key)
            self._clients[url, key] = HttpClient(url, auth=signer, timeout=120, retry=NEVER)
        return self._clients[url, key]

    def close(self):
        for client in self._clients.values():
            client.close()

    # -- tasks ----------------------------------------------------------------------------------------------------
    def next(self, wait=0.0, **options):
        answer = self.call(
            "POST", "/v1/tasks/next", params={"wait": wait, "protocol": versions.newest()}, wait=wait, **options
        )
        return TaskMessage.from_json(answer.body) if answer.status == 200 else None

    def take(self, wait=0.0):
        """Take a task and say so, as a site does: until then it is given again."""
        task = self.next(wait)
        self.heartbeat(task, progress=0.0)
        return task

    def heartbeat(self, task, progress=0.5, attempt=None):
        message = HeartbeatMessage(task=task.id, attempt=attempt or task.attempt, progress=progress)
        return self.call("POST", f"/v1/tasks/{task.id}/heartbeat", body=message.canonical()).json()

    def decline(self, task, reason="policy", text=""):
        message = DeclineMessage(task=task.id, reason=reason, text=text)
        return self.call("POST", f"/v1/tasks/{task.id}/decline", body=message.canonical())

    def work(self, wait=120.0):
        """Take a task, do it, publish it."""
        task = self.next(wait)
        assert task is not None, f"no task for {self.name}"
        return self.publish(self.result(task))

    def publish(self, message, *, task=None, **options):
        path = f"/v1/tasks/{task or message.task}/result"
        answer = self.call("POST", path, body=message.canonical(), **options)
        signed = SignedReceipt.from_json(answer.body)
        receipt = signed.verify(self.coordinator_key)
        assert receipt.task == message.task
        self.confirmed = receipt.head.sequence
        return signed

    def send_lines(self, lines=None):
        lines = self.unconfirmed() if lines is None else lines
        body = {"lines": [line.text for line in lines]}
        answer = self.call("POST", f"/v1/ledger/{self.name}/lines", body=body)
        receipt = SignedReceipt.from_json(answer.body).verify(self.coordinator_key)
        self.confirmed = receipt.head.sequence
        return receipt

    # -- ledger ---------------------------------------------------------------------------------------------------
    def append(self, body):
        line = Line.after(self.replay.head, body, int(time.time() * 1000))
        self.replay.take(line)
        self.lines.append(line)
        return line

    def unconfirmed(self):
        return self.lines[self.confirmed :]

    # -- training -------------------------------------------------------------------------------------------------
    def result(self, task):
        """Reserve, train, fix the bytes; the same bytes for the same task."""
        if task.id not in self.results:
            release, description = self.train(task)
            if release is not None:
                self.charge(task, description)
                self.append(ReleaseBody(task.id, release.digest))
            self.results[task.id] = release
        lines = tuple(line.text for line in self.unconfirmed())
        return ResultMessage(task=task.id, release=self.results[task.id], lines=lines)

    def charge(self, task, description, cost=None, cells=None):
        study, role = open_study(task), task.kind.role
        cost = cost or description.cost
        self.append(
            ReserveBody(
                task.id,
                study.id,
                study.digest,
                cells or charged_cells(study, role),
                cost.nano_epsilon,
                cost.atto_delta,
                sha256(canonical(description.describe())),
            )
        )

    def train(self, task, **changes):
        """A signed release (None where nothing leaves) and its description."""
        study, role = open_study(task), task.kind.role
        X, y, level = self._rows(study, role)
        inputs = open_inputs(study, task.inputs, self._key_of)
        trained = train(study, role, X, y, level, [to_model(study, message) for message in inputs], **changes)
        if trained.release is None:
            return None, None
        message = to_message(study, trained, self.name, inputs)
        return self.sign(message), trained.release

    def sign(self, message):
        return SignedRelease.sign(message, self.key)

    def _rows(self, study, role):
        X, y = self.hospital.encode(study.schema)
        home = {cell: name for name, cells in levels(study, role).items() for cell in cells}
        level = np.array([home.get(row % 20, "unused") for row in range(len(y))])
        used = (level != "holdout") & (level != "unused")
        return X[used], y[used], level[used]

    def _key_of(self, party, key_id):
        if party == "coordinator":
            return self.coordinator_key
        listed = self.call("GET", "/v1/parties").json()["items"]
        found = next(item for item in listed if item["party"] == party)
        public = [keys.public_key(key["public_key"]) for key in found["keys"]]
        return next(key for key in public if keys.key_id(key) == key_id)
