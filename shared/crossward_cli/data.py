"""`crossward site data`: check data, open, refresh, undo, erase; all of it as jobs that the terminal follows."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from crossward.errors import InvalidSetting
from crossward_cli.checks import print_check
from crossward_cli.connections import at_site
from crossward_cli.files import read_mapping, read_text, writing
from crossward_cli.models import auc_words, evaluation_words
from crossward_cli.options import LOOPBACK_TARGET, Ca, Json, SiteToken, SiteUrl
from crossward_cli.output import following, print_json, print_table, say, tell

group = typer.Typer(help="The site's data: check, open, refresh, undo, erase.", no_args_is_help=True)

Dataset = Annotated[str, typer.Argument(help="The dataset.")]
FILE_HELP = "A file, as ROOT/PATH: a root that the site's settings file declares, and a path below it."
FilePath = Annotated[str | None, typer.Argument(metavar="FILE", help=FILE_HELP)]
Connection = Annotated[str | None, typer.Option(help="A connection that the settings file declares, with --query.")]
Query = Annotated[str | None, typer.Option(help="The SQL query: one SELECT.")]
Person = Annotated[str | None, typer.Option(help="The column that says whom a record is about.")]
Mapping = Annotated[
    Path | None,
    typer.Option(help="YAML: columns, units, codes, missing words where they differ; docs/data.md has an example."),
]
StudyFile = Annotated[Path | None, typer.Option(help="A study file that the data should fit.")]
PerPerson = Annotated[int, typer.Option(min=1, max=100, help="Keep at most so many of a person's records.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Separator = Annotated[
    str | None, typer.Option(help="What separates a CSV's cells, such as ';' or tab; else as the names show.")
]
Decimal = Annotated[str | None, typer.Option(help="A CSV's decimal sign, '.' or ','; else a point.")]
Encoding = Annotated[str | None, typer.Option(help="A CSV's encoding, such as cp1252; else UTF-8.")]

PARQUET = (".parquet", ".pq")
MOST_NAMED = 5
MANY = 0.1
"""A larger share of clipped values is told: some are usual."""
SENSIBLE = 10.0
"""Beyond this a lifetime epsilon is said to promise little."""


@group.command("check")
def check(
    site_token: SiteToken,
    file: FilePath = None,
    connection: Connection = None,
    query: Query = None,
    person: Person = None,
    mapping: Mapping = None,
    study: StudyFile = None,
    records_per_person: PerPerson = 1,
    suggest: Annotated[Path | None, typer.Option(help="Write a mapping that mends what a mapping can.")] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Look at data and tell every problem at once. A dry run: nothing is opened, nothing is kept."""
    place = _place(file, connection, query, _form(separator, decimal, encoding))
    columns = _columns(person, mapping)
    with at_site(site, site_token, ca) as client, following(json) as heard:
        found = client.check_data(
            place, columns, records_per_person=records_per_person, study=_study(study), heard=heard
        )
    if suggest is not None:
        with writing(suggest):
            suggest.write_text(found["suggestion"], encoding="utf-8")
    if json:
        print_json(found)
    else:
        print_check(found)
        if suggest is not None:
            print(f"The suggested mapping is in {suggest}: look at it, then give it with --mapping.")
    if not found["ready"]:
        raise typer.Exit(1)


@group.command("open")
def open_data(
    name: Annotated[str, typer.Argument(help="A name for the dataset.")],
    site_token: SiteToken,
    file: FilePath = None,
    epsilon: Annotated[float | None, typer.Option(help="What each person here may lose for life; once.")] = None,
    delta: Annotated[float, typer.Option(help="The lifetime delta of each person.")] = 0.0,
    zcdp: Annotated[bool, typer.Option("--zcdp", help="Keep the budget by zCDP; needs --delta.")] = False,
    connection: Connection = None,
    query: Query = None,
    person: Person = None,
    mapping: Mapping = None,
    study: StudyFile = None,
    records_per_person: PerPerson = 1,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    yes: Yes = False,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Make the sealed copy that studies read. Until something is charged for it, it can be undone."""
    from crossward.privacy.budget import check_delta, check_epsilon
    from crossward.protocol.constants import FilterKind

    _check_name(name)
    place = _place(file, connection, query, _form(separator, decimal, encoding))
    columns = _columns(person, mapping)
    if epsilon is not None:
        check_epsilon(epsilon)
    if delta:
        check_delta(delta)
    with at_site(site, site_token, ca) as client:
        budget = client.budget()
        if not yes:
            known = epsilon if epsilon is not None else None if budget is None else budget["epsilon"]
            if known is None:
                raise InvalidSetting(
                    "The site has no budget yet.", "Say what each person may lose for life: --epsilon 1."
                )
            say(_meaning(known, records_per_person), wrap=True)
            if replaced := _replaced(budget, epsilon):
                say(replaced, wrap=True)
            _confirm(f"Open {name}?")
        with following(json) as heard:
            report = client.open_dataset(
                name,
                place,
                columns,
                epsilon=epsilon,
                delta=delta,
                filter=FilterKind.ZCDP if zcdp else FilterKind.BASIC,
                records_per_person=records_per_person,
                study=_study(study),
                heard=heard,
            )
    replaced = _replaced(budget, epsilon)
    tell(report, "\n".join([_opened(name, report), *([replaced] if replaced else [])]), as_json=json)


@group.command("refresh")
def refresh(
    name: Dataset,
    site_token: SiteToken,
    file: FilePath = None,
    connection: Connection = None,
    query: Query = None,
    mapping: Mapping = None,
    study: StudyFile = None,
    opt_out: Annotated[Path | None, typer.Option(help="A file of ids, one a line, who are erased, for good.")] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    yes: Yes = False,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Bring a new version, from where the last one came or from another place. Persons keep their seats."""
    form = _form(separator, decimal, encoding)
    place = None if file is None and connection is None and not form else _place(file, connection, query, form)
    new, fits = None if mapping is None else read_mapping(mapping), _study(study)
    ids = [] if opt_out is None else _ids(opt_out)
    if ids and not yes:
        _confirm_erasure(len(ids))
    erased = None
    with at_site(site, site_token, ca) as client, following(json) as heard:
        if ids:
            erased = client.erase(ids, heard)
        report = client.refresh_dataset(name, place, new, study=fits, heard=heard)
    text = _refreshed(name, report) + ("" if erased is None else f"\n{_erased(erased, len(ids))}")
    tell(report if erased is None else report | {"erased": erased}, text, as_json=json)


@group.command("undo")
def undo(
    name: Dataset,
    site_token: SiteToken,
    whole: Annotated[bool, typer.Option("--all", help="All versions: the dataset is gone.")] = False,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Take the last version back; refused once anything was charged for it."""
    with at_site(site, site_token, ca) as client, following(json) as heard:
        left = client.undo_dataset(name, heard, whole=whole)
    tell(left, _undone(name, left), as_json=json)


@group.command("erase")
def erase(
    site_token: SiteToken,
    persons: Annotated[list[str] | None, typer.Argument(help="Ids, as the hospital's tables have them.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file of ids, one a line.")] = None,
    yes: Yes = False,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Remove persons from every sealed copy, and keep them out of all to come. What was spent stays spent."""
    ids = [*(persons or []), *([] if file is None else _ids(file))]
    if not ids:
        raise InvalidSetting("Nobody is named.", "Give ids, or --file FILE with one a line.")
    if not yes:
        _confirm_erasure(len(ids))
    with at_site(site, site_token, ca) as client, following(json) as heard:
        gone = client.erase(ids, heard)
    tell(gone, _erased(gone, len(ids)), as_json=json)


@group.command("report")
def report(
    name: Dataset,
    site_token: SiteToken,
    study: Annotated[str | None, typer.Option(help="How the data fit this study.")] = None,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Rows, missing and clipped values. For the site's own eyes."""
    with at_site(site, site_token, ca) as client, following(json) as heard:
        found = client.report(name, study, heard)
    if json:
        print_json(found)
        return
    print(f"{found['dataset']}, version {found['version']}: {_who(found)}")
    print_table(("column", "missing"), ((column, found["missing"].get(column, "")) for column in found["columns"]))
    if fit := found.get("fit"):
        print(f"Read for the study {fit['study']}: {fit['rows']:,} rows, {fit['positives']:,} of them positive.")
        counts = ("missing", "unread", "clipped", "recoded")
        print_table(("feature", *counts), ((f, *(n[key] for key in counts)) for f, n in fit["features"].items()))


@group.command("jobs")
def jobs(site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False) -> None:
    """What is being done with data, and what was done last."""
    with at_site(site, site_token, ca) as client:
        known = client.jobs()
    if json:
        print_json(known)
        return
    columns = ("number", "kind", "dataset", "state", "cause")
    print_table(
        ("asked", *columns, "progress"),
        (
            (job["asked"][5:16].replace("T", " "), *(job[key] or "" for key in columns), f"{job['progress']:.0%}")
            for job in known
        ),
    )


@group.command("follow")
def follow(
    number: Annotated[int, typer.Argument(help="The job, from `crossward site data jobs`.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Wait for a job that another command, or a lost connection, has left."""
    with at_site(site, site_token, ca) as client, following(json) as heard:
        result, job = client.follow(number, heard), client.job(number)
    if job["kind"] == "check" and not json:
        print_check(result)
        return
    tell(result, _came_of(job), as_json=json)


@group.command("cancel")
def cancel(
    number: Annotated[int, typer.Argument(help="The job, from `crossward site data jobs`.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """End a job. What it did not finish has not happened; an AUC that was charged stays so, and can be asked again."""
    with at_site(site, site_token, ca) as client:
        job = client.cancel_job(number)
    ends = job["state"] in ("waiting", "running")
    tell(job, f"Job {number} is {job['state']}{'; it ends as soon as it looks up' if ends else ''}.", as_json=json)


def recover(
    site_token: SiteToken,
    yes: Yes = False,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Go on where the table of seats is lost and no backup has it. Every cell is then at the largest spend."""
    with at_site(site, site_token, ca) as client:
        budget = client.budget()
        if not yes:
            spent = 0.0 if budget is None else budget["epsilon_spent"]
            say(
                f"Nobody knows any more who sat in which cell. All 20 cells will count epsilon {spent:g} as spent, the "
                "most that any has; every dataset is closed, and is opened again from its place. This is final."
            )
            _confirm("Recover?")
        with following(json) as heard:
            done = client.recover(heard)
    tell(done, f"Recovered, by line {done['line']} of the ledger. Open the data again.", as_json=json)


# -- words ----------------------------------------------------------------------------------------------------------
def _opened(name: str, report: dict[str, Any]) -> str:
    until = f"Until a study is charged for it: crossward site data undo {name}."
    return "\n".join([f"{name} is open: {_who(report)}", *_doubts(report), until])


def _refreshed(name: str, report: dict[str, Any]) -> str:
    came = (
        f"{report['came']:,} came, {report['left']:,} whom the version before had are not in it, "
        f"{report['stayed']:,} stayed{_changed(report)}."
    )
    until = f"Until a study is charged for it: crossward site data undo {name}."
    return "\n".join([f"{name} is at version {report['version']}: {_who(report)}", came, *_doubts(report), until])


def _undone(name: str, left: dict[str, Any]) -> str:
    version = left["version"]
    return f"{name} is back at version {version}." if version else f"{name} is gone, as if it had never been opened."


def _erased(gone: dict[str, Any], named: int | None = None) -> str:
    whose = "" if named is None else f" of {_count(named, 'named person')}"
    text = f"{_count(gone['rows'], 'row')}{whose} removed from the sealed copies; new versions leave them out."
    if not gone.get("strangers"):
        return text
    return (
        f"{text}\n{_count(gone['strangers'], 'id')} named nobody who was ever here: are they spelled as in the table?"
    )


def _came_of(job: dict[str, Any]) -> str:
    """What a job that was followed gave, as the command that asked for it would have said."""
    done, name, result = f"Job {job['number']} is done", job["dataset"], job["result"]
    said = {"open": _opened, "refresh": _refreshed, "undo": _undone}.get(job["kind"])
    if said is not None and name:
        return f"{done}: {said(name, result)}"
    told: dict[str, Callable[[Any], str]] = {"erase": _erased, "evaluate": evaluation_words, "auc": auc_words}
    return f"{done}: {told[job['kind']](result)}" if job["kind"] in told else f"{done}."


def _doubts(report: dict[str, Any]) -> list[str]:
    """What a study could not use of the data, told while it can still be undone."""
    if not (fit := report.get("fit")):
        return []
    labelled = fit["rows"] - fit["unlabelled"]
    unread = {name: counts["unread"] for name, counts in fit["features"].items() if counts["unread"]}
    doubts = []
    if not labelled:
        doubts.append("No label can be read.")
    elif fit["positives"] in (0, labelled):
        doubts.append(f"All labels are {'positive' if fit['positives'] else 'negative'}.")
    if labelled and fit["unlabelled"]:
        doubts.append(f"{_count(fit['unlabelled'], 'row')} without a label that can be read: nothing learns from them.")
    if unread:
        doubts.append(f"Values that cannot be read and count as missing: {_named(unread)}.")
    outside = {
        name: counts["clipped"]
        for name, counts in fit["features"].items()
        if counts["clipped"] > MANY * max(1, fit["rows"] - counts["missing"] - counts["unread"])
    }
    if outside:
        doubts.append(f"Values outside of the study's range, which count as its end: {_named(outside)}.")
    if doubts:
        doubts.append("`crossward site data check`, asked the same way, tells the lines, and what mends them.")
    return [f"For the study {fit['study']}: {doubts[0]}", *doubts[1:]] if doubts else []


def _named(counts: dict[str, int]) -> str:
    """The features that have most of something, with how many values."""
    ordered = sorted(counts, key=lambda name: -counts[name])
    more = f" and {len(ordered) - MOST_NAMED} more" if len(ordered) > MOST_NAMED else ""
    return ", ".join(f"{name} {counts[name]:,}" for name in ordered[:MOST_NAMED]) + more


def _who(report: dict[str, Any]) -> str:
    known = f", {report['known']:,} of them known from before" if report["known"] else ""
    dropped = f"; {_count(report['records_dropped'], 'record')} beyond those kept" if report["records_dropped"] else ""
    out = f"; {_count(report['opted_out'], 'row')} of people who opted out left away" if report["opted_out"] else ""
    return f"{_count(report['rows'], 'row')} of {_count(report['persons'], 'person')}{known}{dropped}{out}."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _changed(report: dict[str, Any]) -> str:
    return f", {report['changed']:,} of them changed beyond belief" if report["changed"] else ""


def _meaning(epsilon: float, records: int) -> str:
    """What a lifetime budget means for one person, before it is given."""
    odds = math.exp(min(epsilon, 50.0))
    after = [100 * p * odds / (1 - p + p * odds) for p in (0.01, 0.5)]
    each = f" A study that asks epsilon e of a record takes {records} e of a person." if records > 1 else ""
    return (
        f"Each person at this site may lose epsilon {epsilon:g}, for life, in all data and studies together.{each}\n"
        f"Whoever suspects something about a person with 1 % may after everything be sure of it with at most "
        f"{after[0]:.3g} %, and with 50 % at most {after[1]:.3g} %.\n"
        "The budget is final once the first study is charged; until then opening data with another --epsilon "
        "replaces it, and `data undo` takes the data back."
        + ("\nAbove 10 it promises next to nothing: common choices are 0.1 to 10." if epsilon > SENSIBLE else "")
    )


def _replaced(budget: dict[str, Any] | None, epsilon: float | None) -> str:
    """That everybody's budget becomes another one, where it does."""
    if budget is None or epsilon is None or budget["epsilon"] == epsilon:
        return ""
    return f"This replaces the budget of every person here: epsilon {budget['epsilon']:g} becomes {epsilon:g}."


def _confirm_erasure(count: int) -> None:
    say(
        f"{_count(count, 'person')} will be removed from every sealed copy, and kept out of all data to come. "
        "This is final: no command brings them back. What was spent for them stays spent.",
        wrap=True,
    )
    _confirm("Erase?")


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise InvalidSetting("Nobody is there to ask.", "Read what is said above, then give --yes.")
    typer.confirm(question, abort=True)


# -- what is asked --------------------------------------------------------------------------------------------------
def _is_slug(name: str) -> bool:
    from crossward.values import SLUG

    return re.fullmatch(SLUG, name) is not None and len(name) <= 64


def _check_name(name: str) -> None:
    if not _is_slug(name):
        raise InvalidSetting(
            f"{name!r} cannot name a dataset.", "Take lower-case letters and digits, with single dashes between."
        )


def _form(separator: str | None, decimal: str | None, encoding: str | None) -> dict[str, str]:
    """How a CSV is written, where the steward says so."""
    if separator is not None:
        separator = {"tab": "\t", "\\t": "\t"}.get(separator.lower(), separator)
        if len(separator) != 1:
            raise InvalidSetting(f"{separator!r} cannot separate cells.", "Give one character, such as ';', or tab.")
    if decimal not in (None, ".", ","):
        raise InvalidSetting(f"{decimal!r} is no decimal sign.", "Give --decimal . or --decimal ,")
    given = {"delimiter": separator, "decimal": decimal, "encoding": encoding}
    return {name: value for name, value in given.items() if value is not None}


def _place(file: str | None, connection: str | None, query: str | None, form: dict[str, str]) -> dict[str, Any]:
    """Where the data lie: a file under a root, or a query on a connection."""
    if (file is None) == (connection is None) or (connection is None) != (query is None):
        raise InvalidSetting("Say where the data lie in one way.", "FILE as ROOT/PATH, or --connection NAME --query Q.")
    if connection is not None:
        if form:
            raise InvalidSetting("A query has no separator, decimal sign or encoding.", "Leave them out.")
        return {"kind": "sql", "connection": connection, "query": query}
    root, _, path = str(file).partition("/")
    if not path:
        raise InvalidSetting(f"{file} names no root.", "Write ROOT/PATH: the settings file declares the roots.")
    if not _is_slug(root):
        raise InvalidSetting(
            f"{file} does not begin with the name of a root.",
            "Write ROOT/PATH, not a path of this machine: [data_roots] in the site's settings file names the roots.",
        )
    if ".." in path.split("/"):
        raise InvalidSetting(f"{file} leaves its root.", "Write a path below the root, without `..`.")
    kind = "parquet" if path.lower().endswith(PARQUET) or path.endswith("/") else "csv"
    return {"kind": kind, "root": root, "path": path, **form}


def _columns(person: str | None, mapping: Path | None) -> dict[str, Any]:
    columns = ({} if person is None else {"person": person}) | ({} if mapping is None else read_mapping(mapping))
    if "person" not in columns:
        raise InvalidSetting(
            "Nothing says whom a record is about.", "Give --person COLUMN, or `person:` in the mapping."
        )
    return columns


def _study(path: Path | None) -> str | None:
    return None if path is None else read_text(path)


def _ids(path: Path) -> list[str]:
    return [line.strip() for line in read_text(path).splitlines() if line.strip()]
