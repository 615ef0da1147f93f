"""How a data check looks in the terminal: the verdict, then problems by what they are about, the gravest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossward_cli.output import print_table, say

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}
_ORDER = list(_COLOURS)
_MOST_LINES = 5


def print_check(report: Mapping[str, Any]) -> None:
    """A report of `data check`, from its JSON."""
    from rich.markup import escape

    problems = report["problems"]
    counts = {severity: sum(problem["severity"] == severity for problem in problems) for severity in _ORDER}
    about = f" for the study {report['study']}" if report.get("study") else ""
    say(f"[bold]{escape(report['where'])}[/]: {report['rows']:,} rows of {report['persons']:,} persons{escape(about)}.")
    for what, group in _grouped(problems):
        say(f"\n[bold]{escape(what)}[/]")
        for problem in group:
            _print_problem(problem)
    if report["fit"]:
        say("")
        print_table(
            ("feature", "column", "missing", "unread", "clipped", "recoded"),
            (
                (name, *(fit[key] for key in ("column", "missing", "unread", "clipped", "recoded")))
                for name, fit in report["fit"].items()
            ),
        )
    if counts["error"] or counts["warning"]:
        say("\n[bold]A mapping that mends what a mapping can[/] (--json has it as `suggestion`):")
        say(escape(report["suggestion"].rstrip()), wrap=False)
    told = ", ".join(f"{count} {severity}{'s' if count != 1 else ''}" for severity, count in counts.items() if count)
    verdict = "[bold green]Ready to open[/]" if report["ready"] else "[bold red]Not ready[/]"
    say(f"\n{verdict}: {told or 'nothing to mend'}.")
    if not report.get("study"):
        say("No study was given: --study FILE also tells how each feature would be read, and what mends it.")


def _grouped(problems: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Problems by column, what is about the whole table first, then the columns with the gravest."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for problem in sorted(problems, key=lambda problem: _ORDER.index(problem["severity"])):
        groups.setdefault(problem["column"] or "", []).append(problem)
    order = sorted(groups.items(), key=lambda group: (_ORDER.index(group[1][0]["severity"]), group[0] != ""))
    return [(_title(column, group), group) for column, group in order]


def _title(column: str, group: list[dict[str, Any]]) -> str:
    if not column:
        return "The table"
    features = ", ".join(dict.fromkeys(problem["feature"] for problem in group if problem["feature"]))
    return f"{column} ({features})" if features and features != column else column


def _print_problem(problem: Mapping[str, Any]) -> None:
    from rich.markup import escape

    severity, lines = problem["severity"], list(problem["lines"])
    shown = ", ".join(lines[:_MOST_LINES])
    more = problem["count"] - len(lines[:_MOST_LINES])
    where = f" [dim]({escape(shown)}{f' and {more:,} more' if more > 0 else ''})[/]" if lines else ""
    say(f"  [{_COLOURS[severity]}]{severity}[/] {escape(problem['cause'])}{where}")
    say(f"    [dim]fix[/] {escape(problem['fix'])}")
