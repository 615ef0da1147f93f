"""`crossward plan`: simulate, and tell the lead what to expect."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from crossward.errors import InvalidSetting, StudyInvalid
from crossward.planning import EPSILONS, Assumptions, Forecast, Outlook, plan
from crossward.planning.figure import check_plot, draw
from crossward.planning.power import AS_WRITTEN, MOST_TARGETS, representative
from crossward.planning.setting import MOST_RECORDS
from crossward.privacy.budget import check_epsilon
from crossward.study import Study
from crossward_cli.study import read_text

BARS = "▁▂▃▄▅▆▇█"
WIDE = 100
"""A terminal of so many columns has room for curves beside the numbers."""

_COUNTS = "Write {main: 12702, branch-1: 4334}."


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command."""

    records: tuple[str, ...]
    records_file: Path | None
    auc: float | None
    epsilons: tuple[float, ...]
    nonprivate_auc: float
    positive_rate: float | None
    shift: float
    correlation: float
    repeats: int
    seed: int
    workers: int | None

    def counts(self) -> dict[str, int]:
        """Record counts by party, the options' before the file's."""
        found: dict[str, int] = {}
        if self.records_file is not None:
            try:
                written = yaml.safe_load(read_text(self.records_file))
            except yaml.YAMLError:
                raise InvalidSetting(f"{self.records_file} is neither YAML nor JSON.", _COUNTS) from None
            if not isinstance(written, dict):
                raise InvalidSetting(f"{self.records_file} holds no counts.", _COUNTS)
            found |= {str(party): _whole(party, count) for party, count in written.items()}
        for text in self.records:
            party, _, count = text.partition("=")
            found[party] = _whole(party, int(count) if re.fullmatch("[0-9]{1,20}", count) else count)
        return found

    def study(self, file: Path) -> Study:
        """The study with the counts that were given; what is wrong with those is said of where they were given."""
        counts = self.counts()
        options = [text.partition("=")[0] for text in self.records]
        places = {
            party: f"--records {party}" if party in options else f"{self.records_file}, {party}" for party in counts
        }
        places = {f"records.{party}{part}": place for party, place in places.items() for part in ("", ".[key]")}
        try:
            return Study.from_yaml(read_text(file), counts)
        except StudyInvalid as error:
            problems = [
                replace(p, line=None, field=places[p.field]) if p.field in places else p for p in error.problems
            ]
            raise StudyInvalid(problems) from None

    def assumptions(self, study: Study) -> Assumptions:
        """What the lead supposes; the study's positive rate where none is given."""
        rate = self.positive_rate if self.positive_rate is not None else study.label.positive_rate
        assumed = Assumptions(nonprivate_auc=self.nonprivate_auc, effect_shift=self.shift, correlation=self.correlation)
        return assumed if rate is None else replace(assumed, positive_rate=rate)


def show_plan(file: Path, asked: Asked, plot: Path | None, *, as_json: bool) -> None:
    """Read the study, simulate, show."""
    check_plot(plot)
    study = asked.study(file)
    with progress_bar() as bar:
        task = bar.add_task("simulating hospitals", total=asked.repeats)
        outlook = plan(
            study,
            assumed=asked.assumptions(study),
            epsilons=[check_epsilon(epsilon) for epsilon in asked.epsilons] or EPSILONS,
            wanted=asked.auc,
            repeats=asked.repeats,
            seed=asked.seed,
            workers=asked.workers or os.cpu_count() or 1,
            progress=lambda done, total: bar.update(task, completed=done),
        )
    if plot is not None:
        draw(outlook, plot)
    if as_json:
        print(json.dumps(described(outlook, asked), indent=2))
        return
    _show(outlook, asked, plot)


def progress_bar() -> Progress:
    """How far a simulation is."""
    columns = TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True)


def described(outlook: Outlook, asked: Asked) -> dict[str, Any]:
    """The plan for machines. Rows are named as those of `crossward bench`."""
    frozen, better = outlook.frozen.model_dump(mode="json"), outlook.better
    return {
        "study": outlook.study.id,
        "records": {"sources": outlook.setting.sources, "targets": outlook.setting.targets},
        "simulated_records": {
            "sources": outlook.setting.simulated.sources,
            "targets": representative(outlook.setting.simulated.targets),
        },
        "assumptions": asdict(outlook.setting.assumed),
        "repeats": asked.repeats,
        "seed": asked.seed,
        "epsilons": outlook.tried,
        "rows": [asdict(row) | {"preset": _preset(row)} for row in outlook.forecasts],
        "recommended": {
            "method": outlook.recommended,
            "epsilon": outlook.epsilon,
            "why": frozen["chosen"]["why"],
            "settings": {"method": frozen["method"], "encoding": frozen["encoding"]},
            "simulated_better": None if better is None else better.method,
        },
        "smallest_epsilon": None if outlook.enough is None else asdict(outlook.enough),
    }


def _preset(row: Forecast) -> str:
    return "study" if row.method == AS_WRITTEN else "default"


def _show(outlook: Outlook, asked: Asked, plot: Path | None) -> None:
    console = Console()
    console.print(_assumed(outlook), highlight=False)
    console.print(_table(outlook, sparks=console.width >= WIDE))
    console.print(
        f"AUC to expect at a target: the mean, and the band that holds nine outcomes of ten, over {asked.repeats} "
        f"simulated worlds.{_left_out(outlook)}\nNo record was touched. {_simulated(outlook)}",
        highlight=False,
    )
    console.print(_advice(outlook), highlight=False)
    if plot is not None:
        console.print(f"Drawn into {escape(str(plot))}.", highlight=False, soft_wrap=True)


def _assumed(outlook: Outlook) -> str:
    setting, assumed = outlook.setting, outlook.setting.assumed
    sources = " + ".join(f"{n:,}" for n in setting.sources) or "none"
    lowest, highest = min(setting.targets), max(setting.targets)
    targets = f"{lowest:,}" if lowest == highest else f"{lowest:,} to {highest:,}"
    return (
        f"[bold]{escape(outlook.study.title)}[/]\n"
        f"Public facts: {len(setting.schema.columns)} columns; records at sources {sources}, "
        f"at {len(setting.targets)} target(s) {targets}.\n"
        f"Assumed: positive rate {assumed.positive_rate:g}, AUC without noise {assumed.nonprivate_auc:g}, "
        f"effects differ between sites by {assumed.effect_shift:.0%}, features correlate by {assumed.correlation:g}, "
        f"one declared direction in {1 / assumed.wrong_direction:.0f} is wrong."
    )


def _left_out(outlook: Outlook) -> str:
    """Where the simulation is smaller than the study, and what it does not tell."""
    setting, said = outlook.setting, ""
    if len(setting.targets) > MOST_TARGETS:
        said += f" {MOST_TARGETS} of the {len(setting.targets)} targets are simulated."
    if setting != setting.simulated:
        most = f"{MOST_RECORDS:,}"
        said += f" Who has more than {most} records is simulated with {most}; more would do no worse."
    if len(outlook.forecasts) < len(outlook.methods) * len(outlook.tried):
        said += " Too few: some party's records, for this method at this epsilon."
    return said


def _simulated(outlook: Outlook) -> str:
    paid = "" if outlook.setting.ratio == 1 else f"; a source pays {outlook.setting.ratio:g} times that"
    return f"Every method by Crossward's public rules; a target pays the epsilon above{paid}."


def _table(outlook: Outlook, *, sparks: bool) -> Table:
    epsilons = outlook.tried
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("epsilon", no_wrap=True)
    for epsilon in epsilons:
        table.add_column(f"{'→ ' if epsilon == outlook.epsilon else ''}{epsilon:g}", justify="right", no_wrap=True)
    for method in outlook.methods:
        curve = {row.epsilon: row for row in outlook.curve(method)}
        name = f"{method}\n({outlook.study.method.name})" if method == AS_WRITTEN else method
        style = "bold" if method == outlook.recommended else ""
        cells = [_cell(curve.get(epsilon)) for epsilon in epsilons]
        cells += [_spark([curve.get(epsilon) for epsilon in epsilons], outlook)] if sparks else []
        table.add_row(name, *cells, style=style)
    return table


def _cell(row: Forecast | None) -> str:
    if row is None:
        return "too few"
    return f"{row.auc_mean:.3f}\n[dim]{_short(row.auc_low)}-{_short(row.auc_high)}[/]"


def _short(auc: float) -> str:
    return f"{auc:.2f}".removeprefix("0")


def _spark(rows: list[Forecast | None], outlook: Outlook) -> str:
    """A curve from an AUC of a half to the assumed one without noise."""
    room = outlook.setting.assumed.nonprivate_auc - 0.5
    shares = [0.0 if row is None else min(max((row.auc_mean - 0.5) / room, 0.0), 1.0) for row in rows]
    return "".join(BARS[round(share * (len(BARS) - 1))] for share in shares)


def _advice(outlook: Outlook) -> str:
    chosen = outlook.frozen.chosen
    lines = [f"\n[bold green]Recommended: {outlook.recommended}[/] (`method: auto`). {chosen.why if chosen else ''}"]
    if better := outlook.better:
        lines.append(
            f"In this simulation {better.method} does better, {better.auc_mean:.3f}: the rules are not perfect."
        )
    own = next((row for row in outlook.curve(outlook.recommended) if row.epsilon == outlook.epsilon), None)
    if own is None:
        lines.append(f"At the study's epsilon {outlook.epsilon:g} a party has too few records for it.")
    else:
        lines.append(
            f"At the study's epsilon {outlook.epsilon:g} expect an AUC of [bold]{own.auc_mean:.3f}[/], "
            f"between {own.auc_low:.3f} and {own.auc_high:.3f}."
        )
    if outlook.enough is not None:
        lines.append(_enough(outlook))
    return "\n".join(lines)


def _enough(outlook: Outlook) -> str:
    enough, tried = outlook.enough, [row.epsilon for row in outlook.curve(outlook.recommended)] or outlook.tried
    assert enough is not None
    if enough.expected is None:
        return f"An AUC of {enough.auc:g} is not to be expected up to epsilon {max(tried):g}."
    at_most = "at most " if enough.expected <= min(tried) else ""
    sure = (
        f"not even epsilon {max(tried):g} makes it sure"
        if enough.sure is None
        else f"epsilon {enough.sure:.2g} for nineteen outcomes of twenty"
    )
    return f"An AUC of {enough.auc:g} is expected from epsilon {at_most}[bold]{enough.expected:.2g}[/]; {sure}."


def _whole(party: object, count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidSetting(f"The record count of {party} is {count!r}.", "Write --records main=12702.")
    return count
