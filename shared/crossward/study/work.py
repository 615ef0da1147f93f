"""What a study asks of a party: which cells, at what cost, and the training itself. The same for every method.

A site fetches its rows by level and calls `train`; it has charged `announce` already, and gets back the very release
that was announced, marked if the randomness was seeded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting, TooFewRecords, WrongShape
from crossward.learning.checks import check_matrix
from crossward.learning.combining import StackedModel, source_directly
from crossward.learning.model import Contributions, Model, SplitModel
from crossward.learning.records import Labels
from crossward.learning.stored import Index, Rows, as_slice, count_rows
from crossward.methods.base import HOLDOUT, Counts, Levels, SourceModel, Sources, single_models
from crossward.privacy.noise import SYSTEM, Array, Randomness
from crossward.privacy.output import on_own_grid
from crossward.privacy.release import Release
from crossward.protocol.constants import Role, TaskKind
from crossward.study.study import Study


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A party's model. `release` describes what may leave the site; None: nothing may, or nothing was trained.

    `n` counts the rows it was trained on, `learned_from` the released models it was pulled to or made of.
    """

    kind: TaskKind
    model: Any
    release: Release | None
    n: int
    learned_from: int = 0

    @property
    def usable(self) -> Model:
        """A model that scores records: groups that nobody combined vote by importance."""
        return usable(self.model)

    def margins(self, X: Rows) -> Array:
        """One score per encoded record, above 0 for the positive class."""
        return self.usable.margins(X)

    def scores(self, X: Rows) -> Array:
        """The probability of the positive class."""
        return self.usable.scores(X)

    def contributions(self, X: Rows) -> Contributions:
        """What adds up to the margins."""
        return self.usable.contributions(X)


def usable(model: Any) -> Model:
    """A model that scores records: groups that nobody combined vote by importance."""
    scoring: Model | StackedModel = source_directly(model) if isinstance(model, SplitModel) else model
    return scoring


def levels(study: Study, role: Role) -> Levels:
    """The cells of each level, the holdout among them."""
    return study.method.levels(role, study.cells.counts)


def charged_cells(study: Study, role: Role) -> tuple[int, ...]:
    """The cells whose budget a release of this role is charged to; none where nothing is released."""
    return study.method.charged_cells(role, study.cells.counts)


def trained_levels(study: Study, role: Role) -> tuple[str, ...]:
    """The levels that a role trains on: never the holdout."""
    return tuple(level for level in levels(study, role) if level != HOLDOUT)


def announce(study: Study, role: Role, counts: Counts, sources: Sources | None = None) -> Release | None:
    """What a role will release from so many rows per level; None where nothing leaves and nothing is charged.

    Given the `sources`' models this is the very description that training returns. For planning, before there are
    any, their number is enough (by default all of the study's): the description then names no pull.
    """
    method, terms = study.method, study.terms
    if role is Role.TARGET and not method.pays(role):
        return None
    wanted = trained_levels(study, role)
    if sorted(counts) != sorted(wanted):
        raise InvalidSetting(f"Records are counted for {sorted(counts)}.", f"Count them for {', '.join(wanted)}.")
    if empty := [level for level, count in counts.items() if count < 1]:
        raise TooFewRecords(f"There are no records for {', '.join(empty)}.", "Bring more records.")
    known = len(study.sources) if sources is None else sources
    if role is Role.TARGET and not isinstance(known, int):
        _check_sources(study, known)
    work = method.work(role, terms, sum(counts.values()), known)
    return work.release({level: counts[level] for level in wanted}, terms.features)


def train(
    study: Study,
    role: Role,
    X: Rows,
    y: Labels,
    level: NDArray[np.str_] | Sequence[str] | Mapping[str, slice],
    sources: Sequence[SourceModel] = (),
    randomness: Randomness = SYSTEM,
) -> TrainedModel:
    """A role's model, from encoded rows, each labelled with its level; rows of the holdout are refused.

    Rows of a level that stand side by side are used as they are, others are copied. So stored rows are best put level
    by level; where each level's rows are is then `level`, as slices that meet. Labels of int8 take the least memory.
    Where a target trains nothing the rows are not looked at.
    """
    kind, terms = TaskKind.of(role), study.terms
    if role is Role.TARGET:
        _check_sources(study, sources)
    work = study.method.work(role, terms, len(X), sources)
    if work.ready is not None:
        return TrainedModel(kind, work.ready, None, 0, len(sources))
    X = check_matrix(X, terms.features)
    rows = _rows(trained_levels(study, role), level, len(X))
    announced = announce(study, role, {name: count_rows(index) for name, index in rows.items()}, sources)
    model = work.train(X, y, rows, randomness)
    if announced is None:
        return TrainedModel(kind, model, None, len(X), len(sources))
    if announced.with_seed_mark(randomness.seeded) != model.release:
        raise InvalidSetting("The release is not the one that was announced and charged.", "Do not publish it.")
    return TrainedModel(kind, model, model.release, len(X), len(sources))


def aggregate(study: Study, sources: Sequence[SourceModel], X: NDArray[np.floating], y: Array) -> TrainedModel:
    """The coordinator's one model of all sources', from the public set (X, y), on a grid as every model is sent."""
    if not study.quorum.sources <= len(sources) <= len(study.sources):
        raise InvalidSetting(f"{len(sources)} released models are not a quorum.", "Wait for more sources.")
    model = study.method.aggregate(single_models(sources), check_matrix(X, study.terms.features), y)
    model = replace(model, model=replace(model.model, weights=on_own_grid(model.weights)))
    return TrainedModel(TaskKind.AGGREGATE, model, model.release, 0, len(sources))


def _check_sources(study: Study, sources: Sequence[SourceModel]) -> None:
    """Enough of them: a coordinator that withholds releases cannot make a target start below the quorum."""
    low, high = inputs_wanted(study, TaskKind.TRAIN_TARGET)
    if not low <= len(sources) <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise InvalidSetting(
            f"{study.method.name} learns from {wanted} released models here, and {len(sources)} were given.",
            "Pass what the study's sources released.",
        )


def inputs_wanted(study: Study, kind: TaskKind) -> tuple[int, int]:
    """How many releases a task learns from, at least and at most."""
    learned_from = input_kind(study, kind)
    if learned_from is None:
        return 0, 0
    return (1, 1) if learned_from is TaskKind.AGGREGATE else (study.quorum.sources, len(study.sources))


def input_kind(study: Study, kind: TaskKind) -> TaskKind | None:
    """The tasks whose releases a task learns from; None where it learns from none."""
    if kind is TaskKind.TRAIN_SOURCE or not study.method.has_sources:
        return None
    aggregated = kind is TaskKind.TRAIN_TARGET and study.method.aggregates
    return TaskKind.AGGREGATE if aggregated else TaskKind.TRAIN_SOURCE


def _rows(
    names: Sequence[str], level: NDArray[np.str_] | Sequence[str] | Mapping[str, slice], n: int
) -> dict[str, Index]:
    """The rows of each level, in the study's order; slices where they stand side by side."""
    if isinstance(level, Mapping):
        _check_levels(names, set(level))
        return _check_slices({name: level.get(name, slice(0, 0)) for name in names}, n)
    labels = np.asarray(level)
    if labels.shape != (n,):
        raise WrongShape(f"There are {n} records and {labels.shape} levels.", "Give one level per record.")
    _check_levels(names, set(np.unique(labels).tolist()))
    return {name: as_slice(np.flatnonzero(labels == name)) for name in names}


def _check_levels(names: Sequence[str], level: set[str]) -> None:
    if strange := sorted(level - set(names)):
        raise InvalidSetting(
            f"Rows are labelled {', '.join(map(str, strange))}.", f"This study trains on {', '.join(names)} only."
        )


def _check_slices(rows: dict[str, slice], n: int) -> dict[str, Index]:
    """The same, with their bounds written out, if every one of n rows is in one of them and in no other."""
    bounds = {name: own.indices(n) for name, own in rows.items()}
    end = 0
    for start, stop, step in sorted(bounds.values()):
        if step != 1 or (stop > start and start != end):
            break
        end = max(end, stop)
    else:
        if end == n:
            return {name: slice(start, max(start, stop)) for name, (start, stop, _) in bounds.items()}
    raise WrongShape(f"The slices of the levels do not cut {n} records into parts.", "Let each begin where one ends.")
