"""`crossward demo`: a coordinator and hospitals as real services, and a study in front of you.

The services are processes of this machine, or run already, as containers do (`demo study`).
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from crossward.errors import Conflict, InvalidSetting
from crossward_cli.connections import at_coordinator, at_site
from crossward_cli.files import writing
from crossward_cli.options import LOOPBACK_COORDINATOR, Ca, Coordinator, Json
from crossward_cli.output import print_json, say, tell
from crossward_service.ops.files import secret_of

if TYPE_CHECKING:
    from crossward_lab.demo.federation import LocalFederation
    from crossward_lab.demo.people import People
    from crossward_lab.demo.story import BranchResult, Story

group = typer.Typer(
    help="A coordinator and hospitals as real services: a study from file to predictions.",
    invoke_without_command=True,
)
Method = Annotated[str, typer.Option(help="How branches learn from the main hospital: auto, simcomb or pst-h.")]
Epsilon = Annotated[float, typer.Option(help="What each study costs each patient.")]
Seed = Annotated[int, typer.Option(help="Which hospitals are simulated; the noise is always fresh.")]
SECONDS_ASLEEP = 3600.0


@group.callback()
def demo(
    context: typer.Context,
    json: Json = False,
    branches: Annotated[int, typer.Option(min=1, max=16, help="How many branch hospitals take part.")] = 4,
    everyone: Annotated[bool, typer.Option("--all", help="All 16 branches.")] = False,
    method: Method = "auto",
    epsilon: Epsilon = 0.03,
    seed: Seed = 0,
    folder: Annotated[Path | None, typer.Option("--dir", help="Keep everything in this folder.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the services running until Ctrl-C.")] = False,
) -> None:
    """A coordinator and hospitals as real services on this machine: a study from file to predictions."""
    if context.invoked_subcommand is not None:
        return
    from crossward_lab.demo.story import check

    began = time.monotonic()
    check(method, epsilon)
    with _ended_by_signal(), ExitStack() as stack:
        if folder is None and not keep:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crossward-")))
        else:
            home = folder or Path(tempfile.mkdtemp(prefix="crossward-"))
        with writing(home):
            if (home / "coordinator").exists():
                raise Conflict(f"{home} holds a demonstration already.", "Choose another folder, or remove this one.")
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        federation, story = _play(stack, home, 16 if everyone else branches, method, epsilon, seed)
        seconds = time.monotonic() - began
        where = f"{home}/*/*.sqlite3" if keep or folder else "a temporary folder, gone now (--keep or --dir leaves it)"
        if json:
            print_json(_described(story, method, epsilon, seconds) | {"folder": str(home)})
        else:
            _show(story, method, epsilon, seconds, where)
        if keep:
            _wait(federation)


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """SIGTERM and SIGHUP do what Ctrl-C does: the services end first. What is ignored, as under nohup, stays so."""
    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _play(
    stack: ExitStack, home: Path, branches: int, method: str, epsilon: float, seed: int
) -> tuple[LocalFederation, Story]:
    """Start the federation and run the studies."""
    from crossward_lab.demo.federation import LocalFederation, SimulatedOwner
    from crossward_lab.demo.records import first_record
    from crossward_lab.demo.story import STUDY_TITLES, run
    from crossward_lab.simulate.hospitals import Federation

    columns = TextColumn("{task.description:48}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        setting_up = progress.add_task("simulating hospitals", total=None)
        hospitals = Federation.simulate(branches=branches, seed=seed)
        federation = stack.enter_context(
            LocalFederation(home, hospitals, lambda text: progress.update(setting_up, description=text))
        )
        progress.update(setting_up, description="federation ready", total=1.0, completed=1.0)
        bars: dict[str, TaskID] = {id: progress.add_task(title, total=1.0) for id, title in STUDY_TITLES.items()}
        story = run(
            federation.people,
            method,
            epsilon,
            first_record(hospitals.branches[0]),
            lambda study, done: progress.update(bars[study], completed=done),
            SimulatedOwner(federation).nonprivate_auc,
        )
    return federation, story


@group.command()
def records(
    hospital: Annotated[str, typer.Argument(help="main, or branch-1 to branch-16.")],
    file: Annotated[Path, typer.Argument(help="The CSV to write; one that is there stays.")],
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Write the records of one simulated hospital. None of the patients is real."""
    from crossward_lab.demo.records import simulated, write_csv

    if file.exists():
        tell({"file": str(file), "new": False}, f"{file} is there and stays.", as_json=json)
        return
    patients = simulated(hospital, seed)
    fresh = file.with_name(f".{file.name}.new")
    with writing(file):
        write_csv(patients, fresh)
        fresh.replace(file)
    count = len(patients.labels)
    text = f"{file}: {count:,} simulated patients of {hospital}."
    tell({"file": str(file), "new": True, "records": count}, text, as_json=json)


@group.command()
def study(
    sites: Annotated[list[str], typer.Argument(help="NAME=ADDRESS of each hospital's service; main is the source.")],
    tokens: Annotated[Path, typer.Option(help="The tokens: coordinator/operator, lead, auditor; NAME/steward.")],
    records: Annotated[str, typer.Option(help="The hospital's records, as ROOT/PATH of its own settings file.")],
    coordinator: Coordinator = LOOPBACK_COORDINATOR,
    ca: Ca = None,
    method: Method = "auto",
    epsilon: Epsilon = 0.03,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Invite, join, open data and run the demonstration's studies where the services run already; prints the table."""
    from crossward_lab.demo.records import branch, first_record, simulated
    from crossward_lab.demo.story import check, run

    began = time.monotonic()
    check(method, epsilon)
    steps = Steps(as_json=json)
    with ExitStack() as stack:
        people = _people(stack, sites, coordinator, tokens, records, ca)
        people.gather(steps)
        story = run(people, method, epsilon, first_record(simulated(branch(1), seed)), steps.progress)
    seconds = time.monotonic() - began
    if json:
        print_json(_described(story, method, epsilon, seconds))
    else:
        _show(story, method, epsilon, seconds, "each service's own database")


def _people(
    stack: ExitStack, sites: Sequence[str], coordinator: str, tokens: Path, records: str, ca: Path | None
) -> People:
    """The people of a federation whose tokens lie in files: coordinator/ROLE, SITE/steward."""
    from crossward_lab.demo.people import Desk, People

    roles = {
        role: stack.enter_context(at_coordinator(coordinator, secret_of(f"@{tokens / 'coordinator' / role}"), ca))
        for role in ("operator", "lead", "auditor")
    }
    root, _, path = records.partition("/")
    if not path:
        raise InvalidSetting(f"{records!r} is not ROOT/PATH.", "Write records/patients.csv.")
    place = {"kind": "csv", "root": root, "path": path}
    desks = []
    for site in sites:
        name, equals, url = site.partition("=")
        if not equals:
            raise InvalidSetting(f"{site!r} is not NAME=ADDRESS.", "Write branch-1=https://branch-1:8400.")
        steward = stack.enter_context(at_site(url, secret_of(f"@{tokens / name / 'steward'}"), ca))
        desks.append(Desk(name, steward, place))
    return People(coordinator, **roles, desks=desks)


class Steps:
    """Progress where there is no terminal: a text for each step, and for each quarter of a study."""

    def __init__(self, *, as_json: bool) -> None:
        self._output = sys.stderr if as_json else sys.stdout
        self._quarters: dict[str, int] = {}

    def __call__(self, text: str) -> None:
        """Say what is done now."""
        print(text, file=self._output, flush=True)

    def progress(self, study: str, done: float) -> None:
        """Say how far a study is."""
        from crossward_lab.demo.story import STUDY_TITLES

        quarter = int(4 * done)
        if quarter > self._quarters.get(study, 0):
            self._quarters[study] = quarter
            self(f"{STUDY_TITLES[study]}: {quarter / 4:.0%}")


def _described(story: Story, method: str, epsilon: float, seconds: float) -> dict[str, object]:
    return {
        "targets": [asdict(branch) for branch in story.targets],
        "source": asdict(story.source),
        "method": method,
        "epsilon": epsilon,
        "ledgers_agree": story.ledgers_agree,
        "seconds": round(seconds, 1),
    }


def _show(story: Story, method: str, epsilon: float, seconds: float, where: str) -> None:
    from crossward_lab.demo.people import BUDGET

    title = f"AUC of each branch alone, and with transfer from the main hospital ({method}, eps {epsilon:g})"
    table = Table(title=title, title_justify="left")
    with_twin = story.targets[0].auc_nonprivate is not None
    table.add_column("hospital")
    for heading in ("records", "alone", "transfer", *(["no noise"] if with_twin else []), "eps spent", "eps left"):
        table.add_column(heading, justify="right")
    for branch in story.targets:
        spent = f"{branch.epsilon_spent:g}", f"{branch.epsilon_left:g}"
        table.add_row(branch.name, f"{branch.records:,}", *_aucs([branch]), *spent)
    source = story.source
    spent = f"{source.epsilon_spent:g}", f"{source.epsilon_left:g}"
    table.add_section()
    table.add_row("mean", "", *_aucs(story.targets), "", "")
    table.add_row("main", f"{source.records:,}", "", "", *([""] if with_twin else []), *spent)
    Console().print(table)
    one = story.prediction["predictions"][0]
    agree = "[green]agree, line by line[/]" if story.ledgers_agree else "[bold red]DISAGREE[/]"
    say(
        f"AUC on each branch's holdout, which no study trained on. main is the source: its records helped everyone.\n"
        f"A patient of {story.targets[0].name}: probability {one['probability']:.2f}, from its own service.\n"
        f"Both sides' ledgers {agree}; every hospital began with eps {BUDGET:g}.\n"
        f"They lie in {where}.\n"
        f"No record left its hospital: {len(story.targets) + 2} services over HTTP, {seconds:.0f} s."
    )


def _aucs(branches: Sequence[BranchResult]) -> list[str]:
    """The mean of each AUC that is known."""
    columns = zip(*((one.auc_direct, one.auc_transfer, one.auc_nonprivate) for one in branches), strict=True)
    return [f"{fmean(known):.3f}" for column in columns if (known := [auc for auc in column if auc is not None])]


def _wait(federation: LocalFederation) -> None:
    """Leave the services running until whoever looks at them has seen enough."""
    lines = ["", "Left running. Ctrl-C ends it.", f"  coordinator {federation.coordinator.url}"]
    lines += [f"    {role:9} {token}" for role, token in federation.tokens.items()]
    lines += [f"  {site.name:11} {site.service.url}  {site.token}" for site in federation.sites]
    try:
        say("\n".join(lines), wrap=False)  # in one write: who waits for its beginning has it all
        while True:
            time.sleep(SECONDS_ASLEEP)
    except KeyboardInterrupt:
        say("ending ...")
