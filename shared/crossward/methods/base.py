"""What a method of a study is: its public settings, and all that follows from them alone.

A method is one module: a frozen `Method` with the settings a study may give it, who trains on which cells, the work of
each role, the form of what it sends, and where its proof is. `crossward.methods` lists them; nothing else knows them by
name. See docs/architecture.md, "Add a method".
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting
from crossward.learning.defaults import Defaults, Party
from crossward.learning.encoding import Schema
from crossward.learning.model import LinearModel, Model, ReleasedModel, SplitModel
from crossward.learning.records import Ball, Labels
from crossward.learning.regulariser import Pull
from crossward.learning.stored import Index, Rows
from crossward.privacy.noise import Array, Randomness
from crossward.privacy.release import Release
from crossward.protocol.constants import CELLS, Role
from crossward.values import Section

LEVEL0, LEVEL1, HOLDOUT = "level0", "level1", "holdout"

MANY = 10**9
"""A record count at which nothing is refused for having too few."""

SourceModel = ReleasedModel | SplitModel
"""What a source, or the aggregator, released."""

Sources = Sequence[SourceModel] | int
"""The sources' models; or, before they have released, how many there will be."""

Counts = Mapping[str, int]
"""How many rows each level has; public, since neighbours replace a record and never add one."""

Levels = dict[str, tuple[int, ...]]
"""The cells of each level."""

RowsByLevel = Mapping[str, Index]
"""Which rows belong to each level: a slice where they stand side by side."""


class StudyFinding(NamedTuple):
    """Something wrong with a study: where in its file, the cause, the fix."""

    path: tuple[str | int, ...]
    cause: str
    fix: str


class CellCounts(NamedTuple):
    """How many of the 20 cells train level-0, train level-1, and are held out."""

    level0: int
    level1: int
    holdout: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What a method is told of its study, the method itself aside. All of it is public.

    `ball` is that of a model over all kept columns, `groups` those of the feature groups (none without groups), `start`
    what a model that is pulled to no source is held to (None: zero).
    """

    schema: Schema
    ball: Ball
    groups: tuple[Ball, ...]
    start: Pull | None
    epsilon_source: float | None
    epsilon_target: float | None
    cells: CellCounts
    sources: int
    quorum: int

    @property
    def features(self) -> int:
        """The number of encoded columns."""
        return len(self.schema.columns)


class Work(Protocol):
    """What one party does in a study: described before a record is touched, then done."""

    @property
    def ready(self) -> Model | None:
        """The model, where there is nothing to train and no row to look at."""
        ...

    def release(self, counts: Counts, features: int) -> Release | None:
        """What will leave the site, from so many rows of each level; None where nothing does."""
        ...

    def train(self, X: Rows, y: Labels, rows: RowsByLevel, randomness: Randomness) -> Any:
        """The model, from checked rows that are paid for."""
        ...


class WireWeights(NamedTuple):
    """The weights that a model sends: its own linear models', and level-1's where one was trained."""

    models: tuple[LinearModel, ...]
    level1: Array | None = None


class WireForm(Protocol):
    """How a model is taken apart to be sent, and put together again."""

    def shape(self, terms: Terms, inputs: int) -> tuple[tuple[Ball, ...], int | None]:
        """The balls of the models sent, and the number of level-1's weights (None without level-1)."""
        ...

    def write(self, model: Any, terms: Terms) -> WireWeights:
        """What a model sends."""
        ...

    def read(self, sent: WireWeights, release: Release, terms: Terms, sources: Sequence[SourceModel]) -> Any:
        """The model that was sent. `sources` are those that it scores with, where it does."""
        ...


class Method(Section):
    """A method of a study. Its fields are settings that everybody may know."""

    title: ClassVar[str]
    """The papers' name."""
    explanation: ClassVar[str]
    """For those who are asked to take part: what leaves whom."""
    proofs: ClassVar[tuple[str, ...]]
    """Pages of docs/proofs/ that say why it is private."""

    has_sources: ClassVar[bool] = False
    """Whether sources train and release."""
    target_pays: ClassVar[bool] = True
    """Whether a target releases a model, and so pays for it."""
    grouped: ClassVar[bool] = False
    """Whether features are grouped."""
    aggregates: ClassVar[bool] = False
    """Whether the coordinator makes one model of the sources' before the targets begin."""

    name: str

    # -- who trains, on which cells ---------------------------------------------------------------------------------
    def trains(self, role: Role) -> bool:
        """Whether the role trains on its rows at all."""
        return self.pays(role)

    def pays(self, role: Role) -> bool:
        """Whether the role releases something, and so pays."""
        return self.has_sources if role is Role.SOURCE else self.target_pays

    def has_level_one(self, role: Role) -> bool:
        """Whether a level-1 model is trained, on cells of its own."""
        return False

    def levels(self, role: Role, cells: CellCounts) -> Levels:
        """The cells of each level, numbered 0 to 19: level-0 the first block, level-1 the next, the holdout the last.

        Level-1 cells that no level-1 model needs train level-0 as well: at a source, under a vote, and for methods of
        one model. Who trains nothing uses no cells. The holdout is the same for every role and method, so that results
        compare, and trains nothing. The levels are disjoint.
        """
        cut, end = cells.level0, CELLS - cells.holdout
        holdout = {HOLDOUT: tuple(range(end, CELLS))}
        if not self.trains(role):
            return {LEVEL0: ()} | holdout
        if not self.has_level_one(role):
            return self.cut_level0(role, tuple(range(end))) | holdout
        return self.cut_level0(role, tuple(range(cut))) | {LEVEL1: tuple(range(cut, end))} | holdout

    def cut_level0(self, role: Role, cells: tuple[int, ...]) -> Levels:
        """The levels that the level-0 cells make: one, unless a method cuts them into parts."""
        return {LEVEL0: cells}

    def charged_cells(self, role: Role, cells: CellCounts) -> tuple[int, ...]:
        """The cells whose budget a release of this role is charged to; none where nothing is released."""
        if not self.pays(role):
            return ()
        levels = self.levels(role, cells)
        return tuple(sorted(cell for level, own in levels.items() if level != HOLDOUT for cell in own))

    # -- the work of each role --------------------------------------------------------------------------------------
    def source_work(self, terms: Terms, n: int) -> Work:
        """What a source does, on n rows of all cells but the holdout."""
        raise InvalidSetting(f"{self.name} has no sources.", "Only targets train in this study.")

    @abstractmethod
    def target_work(self, terms: Terms, n: int, sources: Sources) -> Work:
        """What a target that trains on n rows does with what the sources (or the aggregator) released."""

    def work(self, role: Role, terms: Terms, n: int, sources: Sources = ()) -> Work:
        """What a role does."""
        return self.source_work(terms, n) if role is Role.SOURCE else self.target_work(terms, n, sources)

    def aggregate(self, models: Sequence[ReleasedModel], X: NDArray[np.floating], y: Array) -> ReleasedModel:
        """One model of all sources', made by the coordinator from a public set. Post-processing: free."""
        raise InvalidSetting(f"{self.name} aggregates nothing.", "Its targets use the sources' models themselves.")

    def check_aggregate(self, release: Release, weights: Array, inputs: int) -> Iterator[str]:
        """What is wrong with an aggregate of so many models, beyond what its parts say of themselves."""
        return iter(())

    @property
    def public_set_name(self) -> str | None:
        """What the public set is called that the coordinator needs; None where it needs none."""
        return None

    # -- what it sends ----------------------------------------------------------------------------------------------
    @abstractmethod
    def form(self, role: Role) -> WireForm:
        """How a model of this role is sent. An aggregate is sent as the sources' models are."""

    def keep(self, model: Any) -> bytes | None:
        """What a target must keep of a model that it trained and that never leaves; None where nothing is needed."""
        return None

    def restore(self, terms: Terms, sources: Sequence[SourceModel], kept: bytes | None) -> Model:
        """The model of a target that released nothing, from what the sources released and what it kept."""
        model = self.target_work(terms, 0, sources).ready
        if model is None:
            raise InvalidSetting(f"The model of {self.name} was never stored.", "Train it again.")
        return model

    # -- what a study must be for it --------------------------------------------------------------------------------
    @property
    def takes_start(self) -> bool:
        """Whether a model of this method can start from given weights."""
        return False

    def check_cells(self, cells: CellCounts) -> Iterator[StudyFinding]:
        """What is wrong with the cells of a study for this method."""
        return iter(())

    def try_out(self, terms: Terms) -> None:
        """Raise what the learners have to say on settings that only make sense together, whatever the records."""
        for role in Role:
            if self.pays(role):
                levels = [level for level in self.levels(role, terms.cells) if level != HOLDOUT]
                work = self.work(role, terms, MANY, terms.sources)
                work.release(dict.fromkeys(levels, MANY), terms.features)

    # -- settings by rule -------------------------------------------------------------------------------------------
    @classmethod
    def by_rule(cls, rules: Defaults, sources: Sequence[Party], targets: Sequence[Party]) -> dict[str, Any]:
        """The settings that the public rules give it, as a study writes them."""
        raise InvalidSetting(f"There are no rules for {cls.__name__}.", "Give its settings.")

    def no_charge(self) -> NoReturn:
        """Refuse to work out what a target would release that releases nothing."""
        raise InvalidSetting(f"A target releases nothing under {self.name}.", "There is nothing to charge.")


def single_models(sources: Sequence[SourceModel]) -> list[ReleasedModel]:
    """The sources' models, if each released one."""
    models = [source for source in sources if isinstance(source, ReleasedModel)]
    if len(models) != len(sources):
        raise InvalidSetting("A source released models of feature groups, and one model is needed.")
    return models


def split_models(sources: Sequence[SourceModel]) -> list[SplitModel]:
    """The sources' models, if each released one per feature group."""
    models = [source for source in sources if isinstance(source, SplitModel)]
    if len(models) != len(sources):
        raise InvalidSetting("A source released one model, and models of feature groups are needed.")
    return models
