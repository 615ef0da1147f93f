"""The federation of docker-compose.yml under test: its people, its faults, its books."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import sqlite3
import tempfile
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import engine

from crossward.client import Client, SiteClient
from crossward.errors import CrosswardError
from crossward.study import Study, study_for
from crossward_lab.demo.records import OUTCOME
from crossward_lab.simulate.hospitals import SCHEMA

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SITES = ("main", "branch-1", "branch-2", "branch-3")
SERVICES = ("coordinator", *SITES)
PYTHON = "/opt/crossward/bin/python"
EPSILON = 0.01
"""What a study costs here. The demonstration leaves every hospital enough for three hundred."""

_STORED = """
import json, sqlite3, sys
with sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True) as database:
    query = "SELECT study, release FROM outbox JOIN tasks ON tasks.id = outbox.task"
    print(json.dumps(dict(database.execute(query).fetchall())))
"""


@dataclass
class Begun:
    """A study of one test: what it should come to, and who should have paid for it."""

    study: Study
    state: str = "complete"
    pays: set[str] = field(default_factory=set)

    @property
    def id(self):
        return self.study.id


class Federation:
    """Real containers. Whatever a test breaks, it mends; the books are then checked (conftest.py)."""

    def __init__(self, project: str, folder: Path) -> None:
        self.project, self.faults = project, folder / "faults"
        self.begun: list[Begun] = []
        self._folder, self._numbers = folder, itertools.count(1)
        self._stack, self._containers = ExitStack(), {}
        self._compose = [*engine.compose_command(), "-p", project, "-f", ROOT / "docker-compose.yml"]
        self._compose += ["-f", HERE / "faults.yml"]
        for service in SERVICES:
            place = self.faults / service
            place.mkdir(parents=True)
            place.chmod(0o777)  # the service's user takes away what was laid for one start
            shutil.copy(HERE / "faults" / "start.py", place)

    # -- the whole ------------------------------------------------------------------------------------------------
    def compose(self, *words, **options):
        environment = os.environ | {"CROSSWARD_FAULTS": str(self.faults), "CROSSWARD_COORDINATOR_PORT": ""}
        return engine.call([*self._compose, *words], env=environment, cwd=ROOT, seconds=1800, **options)

    def up(self) -> str:
        """Bring it up as a newcomer would, until `study` has ended; gives what that printed."""
        up = self.compose("up", "-d", "--no-build", check=False)
        assert up.returncode == 0, f"{up.stdout}{up.stderr}\n{self.logs()}"
        study = self.container("study")
        ended = lambda: not self.state("study")["Running"]  # noqa: E731
        engine.until("the study service ends", ended, self.logs, patience=3 * engine.WAIT_SECONDS)
        assert self.state("study")["ExitCode"] == 0, self.logs("study")
        self._meet()
        return engine.run("logs", study).stdout

    def down(self) -> None:
        self._stack.close()
        self.compose("down", "-v", "--timeout", "3", "--remove-orphans")
        assert engine.left_behind(self.project) == {}

    def _meet(self) -> None:
        """The people: their tokens and the authority they trust lie in volumes."""
        self.ca = engine.copied(self.container("coordinator"), "/certificates/ca.pem", self._folder / "ca.pem")
        people = (self._stack.enter_context(self.person(role)) for role in ("operator", "lead", "auditor"))
        self.operator, self.lead, self.auditor = people
        self.sites = {
            name: self._stack.enter_context(SiteClient(f"https://{name}:8400", self.token(name, "steward"), ca=self.ca))
            for name in SITES
        }

    def person(self, role) -> Client:
        """A connection of its own to the coordinator."""
        return Client("https://coordinator:8400", self.token("coordinator", role), ca=self.ca)

    def token(self, service, role):
        file = self._folder / f"{service}-{role}"
        if not file.exists():
            engine.copied(self.container(service), f"/tokens/{role}", file)
        return file.read_text().strip()

    # -- containers -----------------------------------------------------------------------------------------------
    def container(self, service) -> str:
        if service not in self._containers:
            labels = {"project": self.project, "service": service}
            filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
            self._containers[service] = engine.run("ps", "-aq", *filters).stdout.strip() or f"no-container-of-{service}"
        return self._containers[service]

    def state(self, service):
        return engine.inspect(self.container(service))["State"]

    def address(self, service, network=None):
        """Where a service is now; empty if it is nowhere."""
        networks = engine.inspect(self.container(service))["NetworkSettings"]["Networks"]
        name = f"{self.project}_{network or {'coordinator': 'front'}.get(service, service)}"
        return networks.get(name, {}).get("IPAddress", "")

    def resolver(self, resolve=socket.getaddrinfo):
        """The names of the services, as this machine cannot know them; all others as ever."""

        def find(host, *rest, **options):
            if host in SERVICES:
                host = self.address(host)
                if not host:
                    raise socket.gaierror(socket.EAI_NONAME, "the container is down or cut off")
            return resolve(host, *rest, **options)

        return find

    def logs(self, *services, lines=15) -> str:
        said = []
        for service in services or ("database", *SERVICES):
            done = engine.run("logs", "--tail", lines, self.container(service), check=False)
            said.append(f"-- {service}\n{done.stdout}{done.stderr}")
        return "\n".join(said)

    def inside(self, service, *words, code=0, **environment):
        """A command in a service's container."""
        given = [f"--env={name}={value}" for name, value in environment.items()]
        done = engine.run("exec", *given, self.container(service), *words, check=False)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    # -- faults ---------------------------------------------------------------------------------------------------
    def always(self, service, **variables):
        """Variables for every start from the next one on; without any, none."""
        (self.faults / service / "always.json").write_text(json.dumps(variables))

    def once(self, service, point, signal="SIGKILL"):
        """At its next start, let a service die (or halt) at a named point."""
        laid = {"CROSSWARD_CRASH_AT": point, "CROSSWARD_CRASH_SIGNAL": signal}
        (self.faults / service / "once.json").write_text(json.dumps(laid))

    def kill(self, *services):
        """As if the power had gone."""
        engine.run("kill", "--signal=KILL", *map(self.container, services))
        for service in services:
            assert self.death(service) == 137

    def death(self, service):
        """The exit code of a service, once it has ended."""
        engine.until(f"{service} ends", lambda: not self.state(service)["Running"], self.logs)
        return self.state(service)["ExitCode"]

    def start(self, *services, wait=True):
        engine.run("start", *map(self.container, services))
        if wait:
            self.wait_for(*services)

    def restart(self, *services, wait=True):
        """End in order, and start again."""
        engine.run("restart", "--time=30", *map(self.container, services))
        if wait:
            self.wait_for(*services)

    def wait_for(self, *services):
        """Wait until services answer."""
        for service in services:
            self.until(f"{service} answers", lambda service=service: self._answers(service))

    def _answers(self, service):
        if service == "database":
            healthy = ("exec", self.container(service), "pg_isready", "--quiet", "--host=127.0.0.1")
            return engine.run(*healthy, check=False).returncode == 0
        if service == "coordinator":
            return self.lead.studies() and self.lead.about()
        return self.sites[service].status()

    def cut(self, service):
        """Take a hospital's network away, wire and name."""
        engine.run("network", "disconnect", f"{self.project}_{service}", self.container(service))

    def heal(self, service):
        alias = f"--alias={service}"
        engine.run("network", "connect", alias, f"{self.project}_{service}", self.container(service))

    def until(self, what, check, patience=engine.WAIT_SECONDS):
        """Ask until there is an answer that counts; a service that does not answer is asked again."""
        return engine.until(what, check, self.logs, patience, forgive=CrosswardError)

    # -- studies --------------------------------------------------------------------------------------------------
    def study(self, method="direct", targets=("branch-1",), *, state="complete", pays=None, **settings) -> Begun:
        """Create a study with an id of its own. Everybody in it is expected to pay, or who is named."""
        made = study_for(
            SCHEMA,
            id=f"fault-{next(self._numbers)}",
            method=method,
            epsilon=EPSILON,
            label={"name": OUTCOME, "positive": True},
            targets=targets,
            **settings,
        )
        paying = set(made.sources) | set(made.targets if made.epsilon.target else ())
        self.begun.append(Begun(made, state, paying if pays is None else set(pays)))
        self.lead.create(made.to_yaml())
        return self.begun[-1]

    def begin(self, *arguments, **settings) -> Begun:
        """Create a study and start it."""
        begun = self.study(*arguments, **settings)
        self.lead.start(begun.id)
        return begun

    def ended(self, begun: Begun):
        """The study, once it has ended as it should."""

        def end():
            shown = self.lead.study(begun.id)
            return shown if shown["state"] in (begun.state, "complete", "failed", "cancelled") else None

        shown = self.until(f"study {begun.id} ends", end)
        assert shown["state"] == begun.state, (shown["cause"], shown["tasks"])
        return shown

    def task(self, service, begun):
        """A study's task as the site has it, if it does."""
        return next((task for task in self.sites[service].tasks() if task["study"] == begun.id), None)

    def in_state(self, service, begun, state):
        """Wait until a site's task has come to a state."""
        return self.until(
            f"the task of {service} is {state}",
            lambda: (found := self.task(service, begun)) and found["state"] == state and found,
        )

    def trouble(self, service, word):
        """What a site says is wrong, once it is about this."""
        said = self.until(
            f"{service} tells of trouble with {word!r}",
            lambda: word in (said := self.sites[service].status()["trouble"]) and said,
        )
        return str(said)

    # -- books ----------------------------------------------------------------------------------------------------
    def stored(self, service):
        """The signed releases in a site's own database, by study; the container may run, be halted or be dead."""
        name = "/data/site.sqlite3"
        if self.state(service)["Running"]:
            return json.loads(self.inside(service, PYTHON, "-c", _STORED, name))
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            place = engine.copied(self.container(service), "/data", Path(folder) / "data")
            with closing(sqlite3.connect(place / Path(name).name)) as database:
                query = "SELECT study, release FROM outbox JOIN tasks ON tasks.id = outbox.task"
                return dict(database.execute(query).fetchall())

    def books(self):
        """Every hospital's ledger as it is now."""
        return {name: site.ledger() for name, site in self.sites.items()}

    def settled(self, service):
        """Whether a hospital has nothing on its way, and the mirror has heard all."""
        status = self.sites[service].status()
        return not status["outbox"] and not status["ledger"]["unconfirmed"] and not status["tasks"]
