"""What must be true after every step, and in the end.

The judge reads the databases' files itself, with SQL of its own, and sees every message; it asks no service.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossward.protocol.constants import PAID_AUC
from crossward.study import Study
from crossward_lab.disasters.accounts import NANO_BUDGET, Accounts
from crossward_lab.disasters.federation import LEASE, Hospital
from crossward_lab.disasters.network import Call
from crossward_lab.disasters.persons import Change, Persons
from crossward_lab.disasters.plan import Kind
from crossward_lab.disasters.verdict import Overdrawn, Violation, must

if TYPE_CHECKING:
    from crossward_lab.disasters.history import World
    from crossward_lab.disasters.host import Process

ENDED = ("complete", "failed", "cancelled")
LINES = (
    "SELECT sequence, kind, subject, body, hash FROM ledger_lines WHERE owner = ? AND sequence > ? ORDER BY sequence"
)

LEASES = (
    "SELECT tasks.id, tasks.state, lease_until, parties.state FROM tasks LEFT JOIN parties ON parties.id = tasks.party"
)

SPEND = "SELECT cell, nano_epsilon, atto_delta FROM ledger_spend WHERE owner = 'self'"

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass
class _Chain:
    """What the judge has seen of one ledger."""

    hashes: list[str] = field(default_factory=list)
    spent: dict[int, tuple[int, int]] = field(default_factory=dict)  # of each cell: nano-eps, atto-delta
    seated: bool = False
    lost: set[str] = field(default_factory=set)  # tasks that were charged and not released when the seats were lost
    charges: dict[str, Any] = field(default_factory=dict)
    released: dict[str, str] = field(default_factory=dict)

    def take(self, rows: list[tuple[int, str, str, str, str]], whose: str) -> list[Change]:
        changes = []
        for sequence, kind, subject, body, hash in rows:
            must(sequence == len(self.hashes) + 1, f"{whose}: line {sequence} follows line {len(self.hashes)}")
            self.hashes.append(hash)
            values = json.loads(body)
            changes.append((kind, subject, values))
            if kind == "open":
                must(not self.charges, f"{whose}: another budget after the first charge")
                self.spent = dict.fromkeys(range(values["cells"]), (0, 0))
            elif kind == "seats":
                self.seated = True
            elif kind == "recover":
                largest = tuple(map(max, zip(*self.spent.values(), strict=True)))
                self.spent, self.seated = dict.fromkeys(self.spent, (largest[0], largest[1])), False
                self.lost |= self.charges.keys() - self.released.keys()
            elif kind == "reserve":
                must(subject not in self.charges, f"{whose}: {subject} is charged twice")
                must(self.seated, f"{whose}: {subject} is charged while nobody knows who sits where")
                self.charges[subject] = values
                for cell in values["cells"]:
                    epsilon, delta = self.spent[cell]
                    total = epsilon + int(values["nano_epsilon"])
                    self.spent[cell] = total, delta + int(values["atto_delta"])
                    must(total <= NANO_BUDGET, f"{whose}: cell {cell} has spent {total} of {NANO_BUDGET} nano-epsilon")
            elif kind == "release":
                must(subject in self.charges, f"{whose}: {subject} is released and was never charged")
                must(subject not in self.released, f"{whose}: {subject} is released twice")
                must(subject not in self.lost, f"{whose}: {subject} was charged to others than it would read")
                self.released[subject] = values["digest"]
        return changes


class Judge:
    """Watches one history."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._own: dict[Path, _Chain] = {}
        self._connections: dict[Path, tuple[int, sqlite3.Connection]] = {}
        self._mirrors: dict[str, _Chain] = {}
        self._results: dict[str, str | None] = {}
        self._states: dict[str, tuple[str, float]] = {}
        self._leases: dict[str, tuple[str, float | None, float]] = {}  # a task's state, its lease, since when
        self._left: dict[str, str] = {}  # task -> the digest of the bytes that have left its site
        self._paid: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._forgot = False
        self._ahead: dict[str, list[str]] = {}  # of each party that was put back, the mirror's lines at that moment
        self.accounts = Accounts()
        self.persons = Persons(world, self.accounts)
        self.studies: dict[str, Study] = {}
        self.seen: list[str] = []
        """What the coordinator saw, without what was released: the same whatever the records say."""
        self.verdicts: list[str] = []

    # -- after every step ---------------------------------------------------------------------------------------------
    def committed(self, process: Process, path: Path) -> None:
        """A transaction was committed."""
        self._world.steps += 1
        if self._world.accounts_only:
            return
        with self._judged():
            if path.name == "site.sqlite3":
                self._look_at_site(path)
            else:
                self._look_at_coordinator(path)

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """A violation ends the history, also where a service would catch what is raised inside it."""
        try:
            yield
        except Violation as violation:
            self.object(str(violation), of_person=isinstance(violation, Overdrawn))

    def object(self, words: str, *, of_person: bool = False) -> None:
        """Something was that must never be: the history ends."""
        if self._world.accounts_only and not of_person:
            return
        self.verdicts.append(words)
        self._world.tell(f"VIOLATION: {words}")

    def _look_at_site(self, path: Path) -> None:
        chain = self._own.setdefault(path, _Chain())
        with self._looking_at(path) as connection:
            lines = self._extend(connection, chain, "self", str(path.parent.name))
            rows = connection.execute(SPEND).fetchall()
        stored = {cell: (int(epsilon), int(delta)) for cell, epsilon, delta in rows}
        if stored != chain.spent:
            cell, _ = min(set(stored.items()) ^ set(chain.spent.items()))
            has, says = _spent(stored.get(cell)), _spent(chain.spent.get(cell))
            raise Violation(f"{path.parent.name}: cell {cell} has spent {has} by the table and {says} by the lines")
        self.persons.look(path, connection, lines, chain.spent)

    def _extend(self, connection: sqlite3.Connection, chain: _Chain, owner: str, whose: str) -> list[Change]:
        known = len(chain.hashes)
        rows = connection.execute(LINES, (owner, max(0, known - 1))).fetchall()
        if known:
            must(bool(rows) and rows[0][4] == chain.hashes[-1], f"{whose}: line {known} was taken back or changed")
            rows = rows[1:]
        return chain.take(rows, whose)

    @contextmanager
    def _looking_at(self, path: Path) -> Iterator[sqlite3.Connection]:
        """A database that is looked at again and again: its connection is kept while the file is the same."""
        number = path.stat().st_ino
        known = self._connections.get(path)
        if known is None or known[0] != number:
            if known is not None:
                known[1].close()
            known = self._connections[path] = number, sqlite3.connect(path)
        yield known[1]

    def close(self) -> None:
        """Look at nothing any more."""
        for _, connection in self._connections.values():
            connection.close()

    def _look_at_coordinator(self, path: Path) -> None:
        with self._looking_at(path) as connection:
            for owner, sequence, hash in connection.execute(
                "SELECT owner, sequence, hash FROM ledger_heads"
            ).fetchall():
                chain = self._mirrors.setdefault(owner, _Chain())
                if (sequence, hash) != (len(chain.hashes), chain.hashes[-1] if chain.hashes else ""):
                    self._extend(connection, chain, owner, f"the mirror of {owner}")
            for task, digest in connection.execute("SELECT task, digest FROM results").fetchall():
                must(self._results.setdefault(task, digest) == digest, f"{task}: its release was replaced")
            for study, state, cause in connection.execute("SELECT id, state, cause FROM studies").fetchall():
                self._look_at_study(study, state, cause)
            for task in connection.execute(LEASES).fetchall():
                self._look_at_lease(*task)

    def _look_at_study(self, study: str, state: str, cause: str) -> None:
        now = self._world.time
        if study not in self._states and self._forgot:
            self._states[study] = state, -math.inf  # it was so when the backup was made
        before, since = self._states.get(study, ("draft", now))
        if state == before:
            return
        must(before not in ENDED, f"{study} was {before} and is {state}")
        self._states[study] = state, now
        self._world.tell(f"{study}: {before} -> {state} {cause}")
        if state in ("failed", "cancelled"):
            must(bool(cause), f"{study} is {state} without a cause")
        if cause.startswith("By the deadline"):
            lasts = self._world.plan.deadline
            must(
                now - since >= lasts - self._world.plan.slack - 1e-3,
                f"{study} ended by a deadline of {lasts:.0f} s after {now - since:.0f} s",
            )

    def _look_at_lease(self, task: str, state: str, until: float | None, party: str | None) -> None:
        """A lease lasts as long as was promised when it was granted or last renewed, unless its party is stopped."""
        now = self._world.time
        if task not in self._leases:
            self._leases[task] = state, until, (-math.inf if self._forgot else now)
        before, promised, since = self._leases[task]
        if (state, until) == (before, promised):
            return
        self._leases[task] = state, until, now
        if (before, state) == ("leased", "ready") and party != "stopped":
            must(
                now - since >= LEASE - self._world.plan.slack - 1e-3,
                f"{task}: its lease of {LEASE:.0f} s ended after {now - since:.0f} s",
            )

    # -- on the wire --------------------------------------------------------------------------------------------------
    def sent(self, process: Process, call: Call) -> Call:
        """A request leaves a site: for each task the same bytes for ever, and only what was charged and kept first."""
        if call.method == "POST" and call.path.endswith("/result") and not self._world.lies.lies(process):
            with self._judged():
                self._look_at_result(process, call)
        return call

    def _look_at_result(self, process: Process, call: Call) -> None:
        message = json.loads(call.body)
        task, release = message["task"], message["release"]
        if release is None:
            return
        digest = hashlib.sha256(base64.b64decode(release["payload"])).hexdigest()
        self._look_at_release(process, task, digest)

    def told(self, process: Process, task: str, digest: str) -> None:
        """A paid AUC is told: for each the same for ever, and only what was charged and kept first."""
        if not self._world.lies.lies(process):
            with self._judged():
                self._look_at_release(process, task, digest)

    def _look_at_release(self, process: Process, task: str, digest: str) -> None:
        party, path = process.host.party, process.host.folder / "site.sqlite3"
        if task not in self._left:
            self._left[task] = digest
            with self._looking_at(path) as connection:
                self.accounts.left(party, task, connection)
            self.persons.left(party, task)
            if not self._world.accounts_only:
                self._look_at_charge(party, task, digest, self._own[path])
        must(self._left[task] == digest, f"{task}: other bytes leave than before")

    def _look_at_charge(self, party: str, task: str, digest: str, chain: _Chain) -> None:
        must(chain.released.get(task) == digest, f"{task}: bytes leave that its site has not written down")
        charge = chain.charges[task]
        for cell in charge["cells"]:
            self._paid[party][cell] += int(charge["nano_epsilon"])
            total = self._paid[party][cell]
            must(total <= NANO_BUDGET, f"{party}: releases of {total} nano-epsilon have left, of {NANO_BUDGET}")

    def arrived(self, process: Process, call: Call) -> None:
        """The coordinator gets a request."""
        said = "" if self._world.lies.lies(process) else _public(call)
        path = _DIGEST.sub("*", call.path)
        self.seen.append(f"{self._world.time:.3f} {process.name} {call.method} {path}?{call.query} {said}")

    # -- people and disasters tell the judge --------------------------------------------------------------------------
    def expect(self, study: Study) -> None:
        """A study that will be started."""
        self.studies[study.id] = study

    def expect_no_more(self, study: Study) -> None:
        """A study that its lead never got to the coordinator."""
        self.studies.pop(study.id, None)

    def forget_site(self, path: Path) -> None:
        """A folder was replaced by an older one, or another process now has it."""
        self._own.pop(path, None)
        self.persons.forget(path)

    def expect_in_step(self, hospital: Hospital) -> None:
        """An old backup of a site was put back: what the mirror has by now, it must see before it writes a line."""
        self._ahead[hospital.party] = self._lines_of(self._world.coordinator_database, hospital.party)

    def look_at_parted(self, hospital: Hospital) -> None:
        """The ledger of a site that was put back is not the mirror's: others may have written on, it may not have."""
        ahead = self._ahead[hospital.party]
        if hospital in self._world.honest() and self._lines_of(hospital.database, "self")[: len(ahead)] != ahead:
            self.object(f"{hospital.party}: an old backup wrote lines before it had seen the mirror")

    def let_go(self, folder: Path) -> None:
        """A folder will be removed: the last to close a database removes its log, which must not be another's then."""
        for path in [path for path in self._connections if path.parent == folder]:
            self._connections.pop(path)[1].close()

    def forget_coordinator(self) -> None:
        """The coordinator's folder was replaced by an older one: what it has forgotten, it may do again."""
        self._mirrors.clear()
        self._results.clear()
        self._states.clear()
        self._leases.clear()
        self._forgot = True

    def forgotten(self) -> list[Study]:
        """The studies that the coordinator does not know, or does not know to have started."""
        with self._looking_at(self._world.coordinator_database) as connection:
            known = connection.execute("SELECT id FROM studies WHERE state != 'draft'").fetchall()
        return [study for study in self.studies.values() if (study.id,) not in known]

    def states(self) -> dict[str, int]:
        """How many studies are in each state."""
        return dict(sorted(Counter(state for state, _ in self._states.values()).items()))

    @property
    def releases(self) -> int:
        """How many releases have left their sites."""
        return len(self._left)

    def is_enrolled(self, party: str) -> bool:
        """Whether the coordinator has a party, active or stopped, and has not revoked it."""
        with self._looking_at(self._world.coordinator_database) as connection:
            row = connection.execute("SELECT state FROM parties WHERE id = ?", (party,)).fetchone()
        return row is not None and row[0] != "revoked"

    def has_stopped(self, hospital: Hospital) -> bool:
        """Whether a site has stopped."""
        return self._finds(hospital, "SELECT 1 FROM facts WHERE name = 'stopped'")

    def asks(self, hospital: Hospital) -> bool:
        """Whether a site has a question for its steward."""
        return self._finds(hospital, "SELECT 1 FROM tasks WHERE state IN ('waiting', 'held')")

    def has_joined(self, hospital: Hospital) -> bool:
        """Whether a site knows who it is."""
        return self._finds(hospital, "SELECT 1 FROM facts WHERE name = 'identity'")

    def needs(self, hospital: Hospital) -> str | None:
        """What a site's steward must do about its data: recover, open them; perhaps recover; or nothing."""
        if not self._is_made(hospital.database) or self.has_stopped(hospital) or self.has_jobs(hospital):
            return None
        if self._finds(hospital, "SELECT 1 FROM facts WHERE name = 'seats'"):
            return "recover"
        with self._looking_at(hospital.database) as connection:
            last = dict(connection.execute("SELECT kind, max(sequence) FROM ledger_lines GROUP BY kind").fetchall())
            table = connection.execute("SELECT max(version), (SELECT count(*) FROM datasets) FROM seat_tables")
            [(version, datasets)] = table.fetchall()
            named = connection.execute("SELECT subject FROM ledger_lines WHERE sequence = ?", (last.get("seats"),))
            subject = named.fetchone()
        if not last:
            return None
        seated = last.get("seats", 0) > last.get("recover", 0)
        if seated != (version is not None):
            return "recover"
        if seated and subject != (str(version),):
            return "perhaps" if datasets else "recover"
        return None if datasets else "open"

    def models(self, hospital: Hospital) -> list[str]:
        """The studies that a site has a model of."""
        if not self._is_made(hospital.database):
            return []
        with self._looking_at(hospital.database) as connection:
            return [row[0] for row in connection.execute("SELECT study FROM models ORDER BY study").fetchall()]

    def has_jobs(self, hospital: Hospital) -> bool:
        """Whether a site has jobs that have not ended."""
        return self._finds(hospital, "SELECT 1 FROM jobs WHERE state IN ('waiting', 'running')")

    def table_of(self, hospital: Hospital) -> Path | None:
        """The file of a site's table of seats."""
        if not self._is_made(hospital.database):
            return None
        with self._looking_at(hospital.database) as connection:
            row = connection.execute("SELECT file FROM seat_tables ORDER BY version DESC LIMIT 1").fetchone()
        file = None if row is None else hospital.host.folder / f"vault-{row[0]}.seats"
        return file if file is not None and file.exists() else None

    def _is_made(self, path: Path) -> bool:
        """Whether a database is there, with its tables: a site that begins anew may have died before it made them."""
        if not path.exists():
            return False
        with self._looking_at(path) as connection:
            query = "SELECT 1 FROM sqlite_master WHERE name = 'ledger_lines'"
            return connection.execute(query).fetchone() is not None

    def _finds(self, hospital: Hospital, query: str) -> bool:
        with self._looking_at(hospital.database) as connection:
            return connection.execute(query).fetchone() is not None

    def stopped_parties(self) -> list[str]:
        """The parties that the coordinator has stopped."""
        with self._looking_at(self._world.coordinator_database) as connection:
            rows = connection.execute("SELECT id FROM parties WHERE state = 'stopped' ORDER BY id").fetchall()
        return [row[0] for row in rows]

    def sound_one(self, original: Hospital, clone: Hospital) -> Hospital:
        """Of two folders of one site, the one that goes on where the mirror is and knows most: there always is one."""
        mirror = self._lines_of(self._world.coordinator_database, original.party)
        chains = [(hospital, self._lines_of(hospital.database, "self")) for hospital in (original, clone)]
        ahead = [(hospital, own) for hospital, own in chains if own[: len(mirror)] == mirror]
        behind = [(hospital, own) for hospital, own in chains if mirror[: len(own)] == own]
        if ahead or behind:
            return max(ahead or behind, key=lambda one: (len(one[1]), self._charged_tasks(one[0])))[0]
        if original.party not in self._world.lies.liars:  # what a liar sent is in nobody's ledger
            self.object(f"{original.party}: neither folder's ledger is the mirror's")
        return original

    def _charged_tasks(self, hospital: Hospital) -> int:
        """How many of the tasks that its ledger charged a site can go on with: what it only took over, it cannot."""
        query = "SELECT count(*) FROM tasks JOIN ledger_lines ON subject = tasks.id WHERE ledger_lines.kind = 'reserve'"
        if not self._is_made(hospital.database):
            return 0
        with self._looking_at(hospital.database) as connection:
            return int(connection.execute(query).fetchone()[0])

    def _lines_of(self, path: Path, owner: str) -> list[str]:
        query = "SELECT hash FROM ledger_lines WHERE owner = ? ORDER BY sequence"
        if not self._is_made(path):
            return []
        with self._looking_at(path) as connection:
            return [row[0] for row in connection.execute(query, (owner,)).fetchall()]

    # -- in the end ---------------------------------------------------------------------------------------------------
    def _heard(self) -> list[Hospital]:
        """The honest hospitals that the coordinator hears: whom it has revoked can end nothing."""
        with self._looking_at(self._world.coordinator_database) as connection:
            rows = connection.execute("SELECT id FROM parties WHERE state = 'revoked'").fetchall()
        revoked = {row[0] for row in rows}
        return [hospital for hospital in self._world.honest() if hospital.party not in revoked]

    def is_over(self) -> bool:
        """Whether everything that was begun has come to an end, at the coordinator and at the sites."""
        if self._endless() or any(hospital.lost for hospital in self._world.honest()):
            return False
        return not any(self._is_busy(hospital) for hospital in self._heard())

    def _is_busy(self, hospital: Hospital) -> bool:
        """Whether a site has something to do, or its steward has."""
        if not self._is_made(hospital.database) or self._open_tasks(hospital) or self.has_jobs(hospital):
            return True
        return self.needs(hospital) in ("recover", "open")

    def is_quiet(self) -> bool:
        """Whether the mirrors have all there is of the ledgers, and nobody is stopped."""
        for hospital in self._heard():
            if self.has_stopped(hospital):
                return False
            own = self._lines_of(hospital.database, "self")
            if own != self._lines_of(self._world.coordinator_database, hospital.party):
                return False
        return not self.stopped_parties()

    def _open_tasks(self, hospital: Hospital) -> list[tuple[str, str]]:
        with self._looking_at(hospital.database) as connection:
            query = "SELECT id, state FROM tasks WHERE state NOT IN ('settled', 'declined', 'cancelled', 'refused')"
            return connection.execute(query).fetchall()

    def last_word(self) -> None:
        """What must be true in the end, after all disasters are over and people have seen to what they must."""
        if self._world.accounts_only:
            return
        with self._judged():
            self._look_at_coordinator(self._world.coordinator_database)
            if not self._world.lies.by_coordinator:
                self._check_studies()
            for hospital in self._heard():
                self._check_site(hospital)

    def _check_studies(self) -> None:
        endless = self._endless()
        must(not endless, "; ".join(f"{study} is {state} and never ends" for study, state in endless.items()))

    def _endless(self) -> dict[str, str]:
        """The studies that have not ended: of those that are expected, and of all that were started."""
        with self._looking_at(self._world.coordinator_database) as connection:
            states = dict(connection.execute("SELECT id, state FROM studies").fetchall())
        started = {study for study, state in states.items() if state != "draft"}
        asked = {study: states.get(study, "draft") for study in {*self.studies, *started}}
        return {study: state for study, state in sorted(asked.items()) if state not in ENDED}

    def _check_site(self, hospital: Hospital) -> None:
        party, honest = hospital.party, not self._world.lies.by_coordinator
        with self._looking_at(hospital.database) as connection:
            stopped = connection.execute("SELECT value FROM facts WHERE name = 'stopped'").fetchone()
            states = dict(connection.execute("SELECT id, state FROM tasks").fetchall())
            kept = {
                row[0] for row in connection.execute("SELECT task FROM outbox WHERE release IS NOT NULL").fetchall()
            }
            kept |= {row[0] for row in connection.execute("SELECT task FROM aucs").fetchall()}  # asked again, told
        self._look_at_site(hospital.database)
        chain = self._own[hospital.database]
        own = self._lines_of(hospital.database, "self")
        must(own == chain.hashes, f"{party}: an earlier line of its ledger was changed")
        if stopped is not None:
            must(bool(json.loads(stopped[0])), f"{party} has stopped without a cause")
            must(not honest, f"{party} is stopped for ever: {stopped[0]}")
            return
        must(not self.has_jobs(hospital), f"{party}: a job never ends")
        if honest:
            self._check_mirror(party, chain)
            for task, state in states.items():
                open_state = state in ("taken", "approved", "reserved", "stored", "declining", "waiting", "held")
                must(not open_state, f"{party}: {task} is {state} and never ends")
        for task in chain.charges:
            state = states.get(task)
            whole = (
                task in chain.released or task in kept or state in ("approved", "reserved", "held", "stored", "waiting")
            )
            # After an old backup, or a lost disk, only the ledger may know of the task, and of an AUC after a clone.
            kinds = self._world.plan.kinds
            lost = Kind.LOST in kinds or (Kind.BACKUP in kinds and not self._world.plan.forgets)
            lost = lost or (Kind.CLONE in kinds and task.startswith(PAID_AUC))
            must(whole or lost, f"{party}: {task} is charged, {state}, and neither released nor resumable")

    def _check_mirror(self, party: str, chain: _Chain) -> None:
        mirror = self._mirrors.get(party, _Chain())
        with self._looking_at(self._world.coordinator_database) as connection:
            state, cause = connection.execute("SELECT state, cause FROM parties WHERE id = ?", (party,)).fetchone()
        stored = self._lines_of(self._world.coordinator_database, party)
        must(stored == mirror.hashes, f"the mirror of {party}: an earlier line was changed")
        must(state == "active", f"{party} is {state} at the coordinator for ever: {cause}")
        must(
            chain.hashes == mirror.hashes,
            f"{party}: {len(chain.hashes)} lines of the ledger and {len(mirror.hashes)} of the mirror are not the same",
        )


def _spent(amounts: tuple[int, int] | None) -> str:
    return "nothing known" if amounts is None else f"{amounts[0]} nano-epsilon and {amounts[1]} atto-delta"


def _public(call: Call) -> str:
    """What a message says beside what was released, signatures and what hangs on them."""
    if not call.body:
        return ""
    message = json.loads(call.body)
    if "lines" in message:
        message["lines"] = [_public_line(text) for text in message["lines"]]
    if "release" in message:
        message["release"] = message["release"] is not None
    for secret in ("public_key", "code"):
        message.pop(secret, None)
    return json.dumps(message, sort_keys=True)


def _public_line(text: str) -> Any:
    """A line without what follows from what was released: its own bytes, and those that a target learned from."""
    line = json.loads(text)
    line.pop("previous")
    line["body"].pop("digest" if line["kind"] == "release" else "release", None)
    return line
