"""`crossward predict`, `evaluate` and `release-auc`: a target's models, for its own patients and its steward."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crossward_cli.connections import at_site
from crossward_cli.files import read_records
from crossward_cli.options import LOOPBACK_TARGET, Ca, Json, SiteToken, SiteUrl, Study
from crossward_cli.output import following, print_json, print_table, tell


def predict(
    study: Study,
    file: Annotated[Path, typer.Argument(help="Records in the site's own columns and units: CSV, or JSON.")],
    site_token: SiteToken,
    study_words: Annotated[
        bool, typer.Option("--study-words", help="They come in the study's names and units instead.")
    ] = False,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Predict with a target's model, for its own patients."""
    records = read_records(file)
    with at_site(site, site_token, ca) as client:
        answer = client.predict(study, records, "study" if study_words else "site")
    if json:
        print_json(answer)
        return
    print_table(
        ("record", f"probability of {answer['label']}", "class", "remarks"),
        (
            (number, f"{one['probability']:.3f}", one["class"], "; ".join(map(_remark, one["remarks"])))
            for number, one in enumerate(answer["predictions"], 1)
        ),
    )


def _remark(remark: dict[str, Any]) -> str:
    """A value that was not used as it came."""
    used = {"missing": f", {remark['used']} used", "clipped": f" to {remark['used']}"}.get(remark["what"], "")
    return f"{remark['feature']} {remark['what']}{used}"


def evaluate(
    study: Study, site_token: SiteToken, site: SiteUrl = LOOPBACK_TARGET, ca: Ca = None, json: Json = False
) -> None:
    """How well a target's model does on its own holdout. It stays at the site."""
    with at_site(site, site_token, ca) as client, following(json) as heard:
        evaluation = client.evaluation(study, heard)
    if json:
        print_json(evaluation)
        return
    print(evaluation_words(evaluation))


def release_auc(
    study: Study,
    epsilon: Annotated[float, typer.Option(help="What each person of the holdout pays for it.")],
    site_token: SiteToken,
    site: SiteUrl = LOOPBACK_TARGET,
    ca: Ca = None,
    json: Json = False,
) -> None:
    """Release a target's AUC on its holdout with noise, paid for: this number may leave the house."""
    with at_site(site, site_token, ca) as client, following(json) as heard:
        paid = client.release_auc(study, epsilon, heard)
    tell(paid, auc_words(paid), as_json=json)


def evaluation_words(evaluation: dict[str, Any]) -> str:
    """What an evaluation found, and that it is not to be told."""
    low, high = evaluation["interval"]
    interval = f"95 %: {low:.3f} to {high:.3f}"
    found = f"AUC {evaluation['auc']:.3f} ({interval}) on {evaluation['records']:,} records not trained on."
    return f"{found}\nNot paid for: it stays in the house."


def auc_words(paid: dict[str, Any]) -> str:
    """An AUC that was paid for, and how much noise it has."""
    noise, epsilon = f"give or take {paid['deviation']:.3f} of noise", paid["release"]["nano_epsilon"] / 1e9
    return f"AUC {paid['auc']:.3f}, {noise}. Paid with epsilon {epsilon:g}: it may leave the house."
