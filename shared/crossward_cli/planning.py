"""`crossward plan`: what to expect of a study, before anyone is asked for a record."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crossward.errors import InvalidSetting, StudyInvalid
from crossward_cli.files import read_text
from crossward_cli.options import Json, Workers
from crossward_cli.output import print_json, progress_bar, say

if TYPE_CHECKING:
    from crossward.planning import Forecast, Outlook
    from crossward.study import Study

BARS = "▁▂▃▄▅▆▇█"
ROOM_FOR_CURVES = 100
"""A terminal of so many columns has room for curves beside the numbers."""

COUNTS_EXAMPLE = "Write {main: 12702, branch-1: 4334}."


def plan(
    file: Annotated[Path, typer.Argument(help="A study file (YAML).")],
    records: Annotated[
        list[str] | None,
        typer.Option("--records", help="A party's public record count, main=12702; more with --records again."),
    ] = None,
    records_file: Annotated[
        Path | None, typer.Option("--records-file", help="Counts by party, as YAML or JSON: {main: 12702}.")
    ] = None,
    auc: Annotated[float | None, typer.Option(help="Also find the smallest epsilon that reaches this AUC.")] = None,
    epsilon: Annotated[list[float] | None, typer.Option(help="Epsilons to try, instead of 0.05 to 4.")] = None,
    nonprivate_auc: Annotated[
        float, typer.Option(help="Assumed: what a model without noise reaches, as published ones do.")
    ] = 0.80,
    positive_rate: Annotated[
        float | None, typer.Option(help="Assumed: the share of positives; the study's own, or 0.15.")
    ] = None,
    shift: Annotated[float, typer.Option(help="Assumed: how far sites' effects lie apart, 0 to 3.")] = 0.3,
    correlation: Annotated[float, typer.Option(help="Assumed: how far features go together, 0 to 0.8.")] = 0.18,
    repeats: Annotated[int, typer.Option(min=2, max=1000, help="Simulated worlds.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Which worlds; the same seed gives the same plan.")] = 0,
    workers: Workers = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it into this file, PNG or SVG.")] = None,
    json: Json = False,
) -> None:
    """A power analysis: the AUC to expect of each method and epsilon, from the study file and public counts alone."""
    from crossward.planning import EPSILONS, Assumptions
    from crossward.planning import plan as forecast
    from crossward.planning.figure import check_plot, draw
    from crossward.privacy.budget import check_epsilon

    check_plot(plot)
    study = Counts(tuple(records or ()), records_file).study(file)
    assumed = Assumptions(nonprivate_auc=nonprivate_auc, effect_shift=shift, correlation=correlation)
    rate = positive_rate if positive_rate is not None else study.label.positive_rate
    with progress_bar() as bar:
        task = bar.add_task("simulating hospitals", total=repeats)
        outlook = forecast(
            study,
            assumed=assumed if rate is None else replace(assumed, positive_rate=rate),
            epsilons=[check_epsilon(one) for one in epsilon or ()] or EPSILONS,
            wanted=auc,
            repeats=repeats,
            seed=seed,
            workers=workers or os.cpu_count() or 1,
            progress=lambda done, total: bar.update(task, completed=done),
        )
    if plot is not None:
        draw(outlook, plot)
    if json:
        print_json(_described(outlook, repeats=repeats, seed=seed))
        return
    _show(outlook, repeats)
    if plot is not None:
        say(f"Drawn into {escape(str(plot))}.", wrap=False)


@dataclass(frozen=True, slots=True)
class Counts:
    """Public record counts by party, from the options and from a file."""

    options: tuple[str, ...]
    file: Path | None

    def by_party(self) -> dict[str, int]:
        """The options' counts before the file's."""
        import yaml

        counts: dict[str, int] = {}
        if self.file is not None:
            try:
                content = yaml.safe_load(read_text(self.file))
            except yaml.YAMLError:
                raise InvalidSetting(f"{self.file} is neither YAML nor JSON.", COUNTS_EXAMPLE) from None
            if not isinstance(content, dict):
                raise InvalidSetting(f"{self.file} holds no counts.", COUNTS_EXAMPLE)
            counts |= {str(party): _whole(party, count) for party, count in content.items()}
        for text in self.options:
            party, _, count = text.partition("=")
            counts[party] = _whole(party, int(count) if re.fullmatch("[0-9]{1,20}", count) else count)
        return counts

    def study(self, file: Path) -> Study:
        """The study with these counts; what is wrong with those is said of where they were given."""
        from crossward.study import Study

        counts = self.by_party()
        options = [text.partition("=")[0] for text in self.options]
        origins = {party: f"--records {party}" if party in options else f"{self.file}, {party}" for party in counts}
        fields = {f"records.{party}{part}": name for party, name in origins.items() for part in ("", ".[key]")}
        try:
            return Study.from_yaml(read_text(file), counts)
        except StudyInvalid as error:
            problems = [
                replace(p, line=None, field=fields[p.field]) if p.field in fields else p for p in error.problems
            ]
            raise StudyInvalid(problems) from None


def _whole(party: object, count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidSetting(f"The record count of {party} is {count!r}.", "Write --records main=12702.")
    return count


def _described(outlook: Outlook, *, repeats: int, seed: int) -> dict[str, Any]:
    """The plan for machines. Rows are named as those of `crossward bench`."""
    from crossward.planning.power import representative

    frozen, better = outlook.frozen.model_dump(mode="json"), outlook.better
    return {
        "study": outlook.study.id,
        "records": {"sources": outlook.setting.sources, "targets": outlook.setting.targets},
        "simulated_records": {
            "sources": outlook.setting.simulated.sources,
            "targets": representative(outlook.setting.simulated.targets),
        },
        "assumptions": asdict(outlook.setting.assumed),
        "repeats": repeats,
        "seed": seed,
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
    from crossward.planning.power import AS_WRITTEN

    return "study" if row.method == AS_WRITTEN else "default"


def _show(outlook: Outlook, repeats: int) -> None:
    console = Console()
    console.print(_assumed(outlook), highlight=False)
    console.print(_table(outlook, sparks=console.width >= ROOM_FOR_CURVES))
    console.print(
        f"AUC to expect at a target: the mean, and the band that holds nine outcomes of ten, over {repeats} "
        f"simulated worlds.{_left_out(outlook)}\nNo record was touched. {_simulated(outlook)}",
        highlight=False,
    )
    console.print(_advice(outlook), highlight=False)


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
    from crossward.planning.power import MOST_TARGETS
    from crossward.planning.setting import MOST_RECORDS

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
    from crossward.planning.power import AS_WRITTEN

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
