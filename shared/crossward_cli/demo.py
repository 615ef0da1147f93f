"""`crossward demo`: a coordinator and hospitals as real services, and a study in front of you.

The services are processes of this machine, or run already, as containers do (`demo study`).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from crossward.client import Client, SiteClient
from crossward.errors import Conflict, InvalidSetting
from crossward_lab.demo.federation import LocalFederation
from crossward_lab.demo.owner import SimulatedOwner
from crossward_lab.demo.people import BUDGET, Desk, People
from crossward_lab.demo.records import branch, first_record, simulated, write_csv, writing
from crossward_lab.demo.story import ALONE, TOGETHER, Row, Story, check, run
from crossward_lab.simulate.hospitals import Federation
from crossward_service.ops.files import secret_of

NAMES = {ALONE: "study 1: each branch alone", TOGETHER: "study 2: with the main hospital"}


def show_demo(
    *, branches: int, method: str, epsilon: float, seed: int, folder: Path | None, keep: bool, as_json: bool
) -> None:
    """Start the federation, run the studies, show what came of it."""
    began = time.monotonic()
    check(method, epsilon)
    with ExitStack() as stack:
        if folder is None and not keep:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crossward-")))
        else:
            home = folder or Path(tempfile.mkdtemp(prefix="crossward-"))
        with writing(home):
            if (home / "coordinator").exists():
                raise Conflict(f"{home} holds a demonstration already.", "Choose another folder, or remove this one.")
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        federation, story = _play(stack, home, branches, method, epsilon, seed)
        seconds = time.monotonic() - began
        where = f"{home}/*/*.sqlite3" if keep or folder else "a temporary folder, gone now (--keep or --dir leaves it)"
        if as_json:
            print(json.dumps(_described(story, method, epsilon, seconds) | {"folder": str(home)}, indent=2))
        else:
            _show(story, method, epsilon, seconds, where)
        if keep:
            _wait(federation)


def _play(
    stack: ExitStack, home: Path, branches: int, method: str, epsilon: float, seed: int
) -> tuple[LocalFederation, Story]:
    columns = TextColumn("{task.description:48}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        setting_up = progress.add_task("simulating hospitals", total=None)
        hospitals = Federation.simulate(branches=branches, seed=seed)
        federation = stack.enter_context(
            LocalFederation(home, hospitals, lambda text: progress.update(setting_up, description=text))
        )
        progress.update(setting_up, description="federation ready", total=1.0, completed=1.0)
        bars: dict[str, TaskID] = {study: progress.add_task(name, total=1.0) for study, name in NAMES.items()}
        story = run(
            federation.people,
            method,
            epsilon,
            first_record(hospitals.branches[0]),
            lambda study, done: progress.update(bars[study], completed=done),
            SimulatedOwner(federation).nonprivate_auc,
        )
    return federation, story


def write_records(hospital: str, file: Path, seed: int) -> None:
    """The records of one simulated hospital; a file that is there stays, as a hospital's records do."""
    if file.exists():
        print(f"{file} is there and stays.")
        return
    made = simulated(hospital, seed)
    fresh = file.with_name(f".{file.name}.new")
    with writing(file):
        write_csv(made, fresh)
        fresh.replace(file)
    print(f"{file}: {len(made.labels):,} simulated patients of {hospital}.")


def play_study(
    sites: Sequence[str],
    *,
    coordinator: str,
    tokens: Path,
    records: Path,
    ca: Path | None,
    method: str,
    epsilon: float,
    seed: int,
    as_json: bool,
) -> None:
    """Bring a federation that runs already together, run the studies, show what came of it."""
    began = time.monotonic()
    check(method, epsilon)
    say = Lines()
    with ExitStack() as stack:
        people = _people(stack, sites, coordinator, tokens, records, ca)
        people.gather(say)
        story = run(people, method, epsilon, first_record(simulated(branch(1), seed)), say.progress)
    seconds = time.monotonic() - began
    if as_json:
        print(json.dumps(_described(story, method, epsilon, seconds), indent=2))
    else:
        _show(story, method, epsilon, seconds, "each service's own database")


def _people(
    stack: ExitStack, sites: Sequence[str], coordinator: str, tokens: Path, records: Path, ca: Path | None
) -> People:
    """The people of a federation whose tokens lie in files: coordinator/ROLE, SITE/steward."""
    roles = {
        role: stack.enter_context(Client(coordinator, secret_of(f"@{tokens / 'coordinator' / role}"), ca=ca))
        for role in ("operator", "lead", "auditor")
    }
    desks = []
    for site in sites:
        name, equals, url = site.partition("=")
        if not equals:
            raise InvalidSetting(f"{site!r} is not NAME=ADDRESS.", "Write branch-1=https://branch-1:8400.")
        steward = stack.enter_context(SiteClient(url, secret_of(f"@{tokens / name / 'steward'}"), ca=ca))
        desks.append(Desk(name, steward, records))
    return People(coordinator, **roles, desks=desks)


class Lines:
    """Progress where there is no terminal: a line for each step, and for each quarter of a study."""

    def __init__(self) -> None:
        self._quarters: dict[str, int] = {}

    def __call__(self, text: str) -> None:
        """Say what is done now."""
        print(text, flush=True)

    def progress(self, study: str, done: float) -> None:
        """Say how far a study is."""
        quarter = int(4 * done)
        if quarter > self._quarters.get(study, 0):
            self._quarters[study] = quarter
            self(f"{NAMES[study]}: {quarter / 4:.0%}")


def _described(story: Story, method: str, epsilon: float, seconds: float) -> dict[str, object]:
    return {
        "targets": [asdict(row) for row in story.targets],
        "source": story.source,
        "method": method,
        "epsilon": epsilon,
        "ledgers_agree": story.ledgers_agree,
        "seconds": round(seconds, 1),
    }


def _show(story: Story, method: str, epsilon: float, seconds: float, where: str) -> None:
    console = Console()
    table = Table(
        title=f"AUC of each branch alone, and with transfer from the main hospital ({method}, eps {epsilon:g})"
    )
    table.title_justify = "left"
    with_twin = story.targets[0].auc_nonprivate is not None
    table.add_column("hospital")
    for heading in ("records", "alone", "transfer", *(["no noise"] if with_twin else []), "eps spent", "eps left"):
        table.add_column(heading, justify="right")
    for row in story.targets:
        table.add_row(row.name, f"{row.records:,}", *_aucs([row]), f"{row.epsilon_spent:g}", f"{row.epsilon_left:g}")
    source = story.source
    spent = (f"{source['epsilon_spent']:g}", f"{source['epsilon_left']:g}")
    table.add_section()
    table.add_row("mean", "", *_aucs(story.targets), "", "")
    table.add_row("main", f"{source['records']:,}", "", "", *([""] if with_twin else []), *spent)
    console.print(table)
    one = story.prediction["predictions"][0]
    agree = "[green]agree, line by line[/]" if story.ledgers_agree else "[bold red]DISAGREE[/]"
    console.print(
        f"AUC on each branch's holdout, which no study trained on. main is the source: its records helped everyone.\n"
        f"A patient of {story.targets[0].name}: probability {one['probability']:.2f}, from its own service.\n"
        f"Both sides' ledgers {agree}; every hospital began with eps {BUDGET:g}.\n"
        f"They lie in {where}.\n"
        f"No record left its hospital: {len(story.targets) + 2} services over HTTP, {seconds:.0f} s.",
        highlight=False,
    )


def _aucs(rows: Sequence[Row]) -> list[str]:
    """The mean of each AUC that is known."""
    columns = zip(*((row.auc_direct, row.auc_transfer, row.auc_nonprivate) for row in rows), strict=True)
    return [f"{fmean(known):.3f}" for column in columns if (known := [auc for auc in column if auc is not None])]


def _wait(federation: LocalFederation) -> None:
    console = Console()
    console.print("\nLeft running. Ctrl-C ends it.", highlight=False)
    console.print(f"  coordinator {federation.coordinator.url}", highlight=False, soft_wrap=True)
    for role, token in federation.tokens.items():
        console.print(f"    {role:9} {token}", highlight=False, soft_wrap=True)
    for site in federation.sites:
        console.print(f"  {site.name:11} {site.service.url}  {site.token}", highlight=False, soft_wrap=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("ending ...", highlight=False)
