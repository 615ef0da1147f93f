"""What the sections of a study must be to one another.

A rule's arguments name the sections it needs; it is asked whenever those were readable, whatever else is wrong, so that
a lead sees every problem at once. It yields findings: where, the cause, the fix.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from crossward.errors import CrosswardError, InvalidInput
from crossward.learning.encoding import Schema
from crossward.methods import METHODS, Method
from crossward.methods.base import StudyFinding, Terms
from crossward.protocol.constants import CELLS, Role
from crossward.study.features import StudyFeature
from crossward.study.sections import Cells, Encoding, Epsilon, Groups, Quorum
from crossward.values import MOST_COLUMNS

Found = Iterator[StudyFinding]


def parties_are_distinct(sources: tuple[str, ...], targets: tuple[str, ...]) -> Found:
    """Nobody is named twice, and nobody is both source and target: its records would be asked to pay twice."""
    for name, parties in (("sources", sources), ("targets", targets)):
        for index, party in enumerate(parties):
            if party in parties[:index]:
                yield StudyFinding((name, index), f"{party!r} is listed twice.", "List each party once.")
    for index, party in enumerate(targets):
        if party in sources:
            yield StudyFinding(
                ("targets", index), f"{party!r} is both a source and a target.", "Give it one role in this study."
            )


def sources_fit_the_method(method: Method, sources: tuple[str, ...]) -> Found:
    """A method that transfers needs a source; another would leave its sources without a task."""
    if method.has_sources and not sources:
        yield StudyFinding(("sources",), f"{method.name} learns from sources and none is listed.", "List at least one.")
    if not method.has_sources and sources:
        yield StudyFinding(
            ("sources",), f"{method.name} uses no sources.", f"Remove them, or use {_methods(has_sources=True)}."
        )


def epsilon_fits_the_method(method: Method, epsilon: Epsilon) -> Found:
    """Each side that releases something has an epsilon, and no other side has one."""
    for side, pays in ((role.value, method.pays(role)) for role in Role):
        given = getattr(epsilon, side) is not None
        if pays and not given:
            yield StudyFinding(
                ("epsilon", side),
                f"Each {side} releases a model under {method.name}.",
                f"Give epsilon.{side}, such as 1.",
            )
        if given and not pays:
            yield StudyFinding(("epsilon", side), f"No {side} releases anything under {method.name}.", "Remove it.")


def quorum_can_be_met(sources: tuple[str, ...], quorum: Quorum) -> Found:
    """At least one source, if there are any, and no more than there are."""
    if quorum.sources > len(sources):
        yield StudyFinding(
            ("quorum", "sources"),
            f"The quorum is {quorum.sources} and there are {len(sources)} sources.",
            f"Use at most {len(sources)}.",
        )
    if sources and quorum.sources < 1:
        yield StudyFinding(
            ("quorum", "sources"), "The quorum is 0, so targets would start from nothing.", "Use 1 or more."
        )


def cells_add_up(cells: Cells) -> Found:
    """Every cell has one use."""
    total = cells.level0 + cells.level1 + cells.holdout
    if total != CELLS:
        yield StudyFinding(
            ("cells",),
            f"level0 + level1 + holdout = {cells.level0} + {cells.level1} + {cells.holdout} = {total}.",
            f"They must sum to {CELLS}, such as 12, 4 and 4.",
        )


def cells_fit_the_method(method: Method, cells: Cells) -> Found:
    """A level-1 model needs cells of its own, and every part of PST-S at least one cell."""
    yield from method.check_cells(cells.counts)


def features_are_distinct(features: tuple[StudyFeature, ...]) -> Found:
    """Names and encoded columns are unique, and there are not too many."""
    columns: dict[str, str] = {}
    names: set[str] = set()
    for index, feature in enumerate(features):
        if feature.name in names:
            yield StudyFinding(("features", index, "name"), f"{feature.name!r} is listed twice.", "Rename one of them.")
            continue
        names.add(feature.name)
        for column in feature.feature().columns():
            if other := columns.get(column):
                cause = f"Its column {column!r} is also one of {other!r}."
                yield StudyFinding(("features", index, "name"), cause, "Rename one of them.")
            columns[column] = feature.name
    if len(columns) > MOST_COLUMNS:
        yield StudyFinding(("features",), f"They make {len(columns)} columns.", f"Use at most {MOST_COLUMNS}.")


def label_is_no_feature(label: Any, features: tuple[StudyFeature, ...]) -> Found:
    """A feature that is the label would be a perfect and useless predictor."""
    for index, feature in enumerate(features):
        if feature.name == label.name:
            yield StudyFinding(("features", index, "name"), f"{feature.name!r} is the label.", "Remove the feature.")


def groups_fit_the_method(method: Method, groups: Groups | None) -> Found:
    """Groups are given where features are grouped, and only there."""
    if method.grouped and groups is None:
        yield StudyFinding(
            ("groups",), f"{method.name} groups the features.", "Give groups, such as {kind: importance, k: 2}."
        )
    if groups is not None and not method.grouped:
        yield StudyFinding(
            ("groups",), f"{method.name} does not group features.", f"Remove groups, or use {_methods(grouped=True)}."
        )


def groups_fit_the_features(features: tuple[StudyFeature, ...], encoding: Encoding, groups: Groups | None) -> Found:
    """K groups of at least one column each, with importances to cut by, and radii and q that can be computed."""
    schema = _schema(features)
    if groups is None or schema is None:
        return
    if groups.k > len(schema.columns):
        cause = f"{len(schema.columns)} columns cannot make {groups.k} groups."
        yield StudyFinding(("groups", "k"), cause, f"Use at most {len(schema.columns)}.")
        return
    if groups.kind == "importance" and (missing := _without_importance(features)):
        for index in missing:
            yield StudyFinding(
                ("features", index, "importance"),
                f"Groups are cut by importance and {features[index].name!r} declares none.",
                "Declare it, from doctors and not from records, or use uniform groups.",
            )
        return
    try:
        encoding.group_balls(schema, groups)
    except InvalidInput as error:
        yield StudyFinding(("groups",), error.cause, error.fix)


def encoding_fits_the_features(features: tuple[StudyFeature, ...], encoding: Encoding) -> Found:
    """Columns that exist and can be scaled, and a radius above zero."""
    schema = _schema(features)
    if schema is None:
        return
    try:
        encoding.starting_pull(schema, encoding.whole_ball(schema))
    except InvalidInput as error:
        yield StudyFinding(("encoding",), error.cause, error.fix)


def start_fits_the_method(method: Method, encoding: Encoding) -> Found:
    """A start is for PLR over all columns; elsewhere nobody would use it."""
    if encoding.start is not None and not method.takes_start:
        yield StudyFinding(
            ("encoding", "start"),
            f"Under {method.name} no model starts from given weights.",
            "Remove start, or use a method of one model per party, such as direct or simcomb.",
        )


def records_are_the_parties(
    records: dict[str, int] | None, sources: tuple[str, ...], targets: tuple[str, ...]
) -> Found:
    """Counts are of parties that take part."""
    for party in records or {}:
        if party not in (*sources, *targets):
            yield StudyFinding(
                ("records", party), f"{party!r} takes no part.", "Remove it, or list it among the parties."
            )


def learners_take_the_settings(
    method: Method,
    epsilon: Epsilon,
    features: tuple[StudyFeature, ...],
    encoding: Encoding,
    groups: Groups | None,
    cells: Cells,
    sources: tuple[str, ...],
    quorum: Quorum,
) -> Found:
    """The library's own word on settings that only make sense together, such as AMP's epsilon and delta."""
    schema = _schema(features)
    if schema is None:
        return
    try:
        terms = terms_of(schema, encoding, groups, epsilon, cells, len(sources), quorum.sources)
    except InvalidInput:
        return  # said above
    if any(getattr(epsilon, role) is None for role in Role if method.pays(role)) or (method.grouped and not groups):
        return  # said above
    if any(method.check_cells(cells.counts)):
        return  # said above
    try:
        method.try_out(terms)
    except CrosswardError as error:
        yield StudyFinding(("method",), error.cause, error.fix)


RULES: Sequence[Callable[..., Found]] = (
    parties_are_distinct,
    sources_fit_the_method,
    epsilon_fits_the_method,
    quorum_can_be_met,
    cells_add_up,
    cells_fit_the_method,
    features_are_distinct,
    label_is_no_feature,
    groups_fit_the_method,
    groups_fit_the_features,
    encoding_fits_the_features,
    start_fits_the_method,
    records_are_the_parties,
    learners_take_the_settings,
)


def terms_of(
    schema: Schema,
    encoding: Encoding,
    groups: Groups | None,
    epsilon: Epsilon,
    cells: Cells,
    sources: int,
    quorum: int,
) -> Terms:
    """What a method is told of its study."""
    ball = encoding.whole_ball(schema)
    return Terms(
        schema=schema,
        ball=ball,
        groups=() if groups is None else encoding.group_balls(schema, groups),
        start=encoding.starting_pull(schema, ball),
        epsilon_source=epsilon.source,
        epsilon_target=epsilon.target,
        cells=cells.counts,
        sources=sources,
        quorum=quorum,
    )


def findings(sections: Mapping[str, Any]) -> Found:
    """What the rules find in the sections that could be read."""
    for rule in RULES:
        needs = inspect.signature(rule).parameters
        if all(name in sections for name in needs):
            yield from rule(**{name: sections[name] for name in needs})


def _schema(features: tuple[StudyFeature, ...]) -> Schema | None:
    """The schema, or None where features repeat one another, which has a rule of its own."""
    try:
        return Schema(tuple(feature.feature() for feature in features))
    except InvalidInput:
        return None


def _without_importance(features: tuple[StudyFeature, ...]) -> list[int]:
    return [index for index, feature in enumerate(features) if "importance" not in feature.model_fields_set]


def _methods(*, has_sources: bool = False, grouped: bool = False) -> str:
    """The methods that have sources, or group features, for people to choose from."""
    names = [name for name, kind in METHODS.items() if kind.has_sources >= has_sources and kind.grouped >= grouped]
    return " or ".join(names)
