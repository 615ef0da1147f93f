"""`method: auto`: resolved to a method and its numbers when a study is read, from public facts alone.

    sources and epsilon.target      simcomb    one model at each source, one at each target pulled towards them
    sources, no epsilon.target      sourced    the sources' model as it is
    no sources                      direct     each target alone

The numbers come from `crossward.learning.defaults`: closed rules of the schema, the positive rate, the epsilons and the
declared `records`. They are written into the study, rounded to four digits, so the same file gives the same study, and
what parties approve is what will run, whatever a later version of the rules would choose (ADR 0021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crossward.learning.defaults import Circumstances, Defaults, Party
from crossward.learning.encoding import Schema
from crossward.learning.plr import PLR
from crossward.methods import Method
from crossward.methods.base import StudyFinding
from crossward.methods.direct import Direct
from crossward.methods.settings import rounded
from crossward.methods.simcomb import SimComb
from crossward.methods.sourced import SourceD
from crossward.protocol.constants import CELLS
from crossward.version import __version__

AUTO = "auto"
UNKNOWN_RATE = 0.5
"""What the rules reckon with where no positive rate is declared."""

_CHOSEN_HERE = ("encoding", "groups", "chosen")


def asks_for_auto(data: Mapping[str, Any]) -> bool:
    """Whether a study leaves the method to us."""
    method = data.get("method")
    return method == AUTO or (isinstance(method, Mapping) and method.get("name") == AUTO)


def auto_findings(data: Mapping[str, Any], sections: Mapping[str, Any]) -> Iterator[StudyFinding]:
    """What keeps `auto` from choosing."""
    if isinstance(data["method"], Mapping) and len(data["method"]) > 1:
        yield StudyFinding(
            ("method",), "auto takes no settings.", "Write `method: auto`, or name a method and its settings."
        )
    for name in _CHOSEN_HERE:
        if data.get(name) is not None:
            yield StudyFinding((name,), f"auto chooses {name} itself.", "Remove it, or name a method.")
    if "epsilon" in sections and "sources" in sections:
        yield from _wrong_epsilon(sections["epsilon"], bool(sections["sources"]))
    if all(name in sections for name in ("records", "epsilon", "sources", "targets", "cells")):
        yield from _wrong_counts(sections)


def _wrong_epsilon(epsilon: Any, has_sources: bool) -> Iterator[StudyFinding]:
    if has_sources and epsilon.source is None:
        yield StudyFinding(("epsilon", "source"), "Each source releases a model.", "Give epsilon.source, such as 1.")
    if not has_sources and epsilon.source is not None:
        yield StudyFinding(("epsilon", "source"), "There are no sources.", "Remove it, or list sources.")
    if not has_sources and epsilon.target is None:
        yield StudyFinding(("epsilon", "target"), "Each target releases a model.", "Give epsilon.target, such as 1.")


def _wrong_counts(sections: Mapping[str, Any]) -> Iterator[StudyFinding]:
    records, epsilon = sections["records"] or {}, sections["epsilon"]
    parties = [*sections["sources"], *sections["targets"]]
    if missing := [party for party in parties if party not in records]:
        shown = ", ".join(f"{party}: 5000" for party in missing[:3])
        yield StudyFinding(
            ("records",),
            f"auto chooses by public record counts, and there is none for {_listed(missing)}.",
            f"Add such as {{{shown}}}: what the party tells everyone, roughly right.",
        )
    for party in parties:
        side = epsilon.source if party in sections["sources"] else epsilon.target
        trained = training_records(records.get(party, 0), sections["cells"].holdout)
        if party in records and side is not None and trained * side < 1:
            borrow = party in sections["targets"] and sections["sources"]
            yield StudyFinding(
                ("records", party),
                f"{trained} records to train on are too few for epsilon {side:g}: nothing can be learned.",
                "Raise epsilon, or leave the party out"
                + (", or leave out epsilon.target to use the sources' model as it is." if borrow else "."),
            )


def chosen(sections: Mapping[str, Any]) -> dict[str, Any]:
    """The sections that `auto` stands for. The others were read and found sound."""
    schema = Schema(tuple(feature.feature() for feature in sections["features"]))
    epsilon, records, holdout = sections["epsilon"], sections["records"], sections["cells"].holdout
    rate = sections["label"].positive_rate

    def parties(names: Sequence[str], each: float | None) -> tuple[Party, ...]:
        return () if each is None else tuple(Party(training_records(records[name], holdout), each) for name in names)

    sources, targets = parties(sections["sources"], epsilon.source), parties(sections["targets"], epsilon.target)
    facts = Circumstances.from_schema(
        schema, sources=sources, targets=targets, prevalence=UNKNOWN_RATE if rate is None else rate
    )
    rules = Defaults.of(facts)
    method = (SimComb if targets else SourceD) if sources else Direct
    encoding = _encoding(schema, rules.source(_typical(sources or targets)))
    why = _why(method, sections, schema, len(encoding["columns"]), rate)
    return {
        "method": method.by_rule(rules, sources, targets),
        "encoding": encoding,
        "chosen": {"by": AUTO, "rules": f"crossward {__version__}", "why": why},
    }


def training_records(records: int, holdout: int) -> int:
    """How many of a party's records train: all cells but the holdout."""
    return records * (CELLS - holdout) // CELLS


def _typical(parties: Sequence[Party]) -> Party:
    """The middle one by records: a study has one encoding and one start for all."""
    return sorted(parties, key=lambda party: party.records)[len(parties) // 2]


def _encoding(schema: Schema, learner: PLR) -> dict[str, Any]:
    """A learner's ball and start, written down."""
    ball = learner.ball
    kept = range(len(schema.columns)) if ball.columns is None else ball.columns
    scale = [1.0] * len(kept) if ball.scale is None else ball.scale
    written: dict[str, Any] = {
        "radius": rounded(ball.radius / math.hypot(*scale)),
        "importance_power": 0.0,
        "intercept": rounded(ball.intercept),
        "columns": {schema.columns[j]: rounded(s) for j, s in zip(kept, scale, strict=True)},
    }
    if ball.offset:
        written["offset"] = rounded(ball.offset)
    if learner.pull is not None:
        weights = learner.pull.centre(ball.dimension(len(schema.columns))).tolist()
        slopes = {schema.columns[j]: rounded(w) for j, w in zip(kept, weights, strict=False) if w}
        intercept = rounded(weights[-1]) if ball.intercept > 0 else 0.0
        written["start"] = {"intercept": intercept, "columns": slopes}
    return written


def _why(method: type[Method], sections: Mapping[str, Any], schema: Schema, kept: int, rate: float | None) -> str:
    epsilon, records = sections["epsilon"], sections["records"]
    sources, targets = _counted(sections["sources"], records), _counted(sections["targets"], records)
    reasons: dict[type[Method], str] = {
        SimComb: f"Targets ({targets}) learn most when one model each is pulled towards the sources' ({sources})",
        SourceD: f"Targets pay nothing here, so they use the model of the sources ({sources}) as it is",
        Direct: f"There are no sources, so each target ({targets}) learns alone",
    }
    paid = ", ".join(f"{side} {value:g}" for side, value in epsilon.model_dump().items() if value is not None)
    declared = sum(feature.direction is not None for feature in sections["features"])
    return (
        f"{reasons[method]}. At epsilon {paid}, {kept} of {len(schema.columns)} columns are worth their noise; "
        f"{declared} of {len(schema.features)} features declare a direction; positive rate "
        f"{'not declared' if rate is None else f'{rate:g}'}. Public facts alone: no record was read."
    )


def _counted(names: Sequence[str], records: Mapping[str, int]) -> str:
    """A party's count, or the range of several."""
    counts = sorted(records[name] for name in names)
    if len(counts) < 2:
        return "".join(f"{count:,} records" for count in counts)
    return f"{len(counts)} of {counts[0]:,} to {counts[-1]:,} records"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
