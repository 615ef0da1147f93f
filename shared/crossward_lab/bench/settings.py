"""A benchmark is a list of settings, a setting a list of runs, a run one method measured once on one random split.

A run is a plain value: it can be sent to another process, and its key names its result in the store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from crossward.privacy.auc import area_under_curve
from crossward.privacy.budget import NON_PRIVATE, Epsilon
from crossward.privacy.noise import Array, SeededRandomness

Option = float | int | str
Outcome = dict[str, dict[str, float]]
"""Metrics ("auc", "error") by part: a target site, a combiner, or "" where there is only one."""

PAPER, DEFAULT = "paper", "default"

LAMBDAS = (0.001, 0.01, 0.1, 1.0)
"""What the papers' methods may choose from. The papers tune on the private records; here the best in hindsight is
reported, which flatters them: nobody could have known it, and it is not paid for."""


@dataclass(frozen=True, slots=True)
class Run:
    """One method, measured once. `options` are the numbers a setting varies or tunes: K, alpha, lambda, partners."""

    dataset: str
    setting: str
    preset: str
    method: str
    epsilon: float | None
    repeat: int
    options: tuple[tuple[str, Option], ...] = ()

    def option(self, name: str) -> Option:
        """One of the options, which must be there."""
        return dict(self.options)[name]

    def number(self, name: str, otherwise: float | None = None) -> float:
        """A numeric option."""
        value = dict(self.options).get(name, otherwise)
        assert isinstance(value, int | float)
        return value

    @property
    def budget(self) -> Epsilon:
        """The epsilon to learn with; None stands for the non-private twin."""
        return NON_PRIVATE if self.epsilon is None else self.epsilon

    def randomness(self) -> SeededRandomness:
        """Noise for this run, the same whenever and wherever it runs."""
        return SeededRandomness(int(self.key("noise"), 16))

    def key(self, *context: str) -> str:
        """A digest of the run within a context, such as the digests of data and code."""
        text = json.dumps([asdict(self), *context], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is tried: `methods` by preset, at each of `epsilons`, for each of `values` of what it `varies`.

    `paper` says which table or figure it stands for. `varies` is the horizontal axis of its figure: epsilon, or an
    option. `twins`: the non-private twins too. `lambdas`: what the papers' methods may choose from.
    """

    dataset: str
    name: str
    paper: str
    methods: Mapping[str, tuple[str, ...]]
    epsilons: tuple[float, ...]
    varies: str = "epsilon"
    values: tuple[Option, ...] = ()
    options: tuple[tuple[str, Option], ...] = ()
    lambdas: tuple[float, ...] = LAMBDAS
    twins: bool = True
    preprocessing: tuple[tuple[str, str], ...] = ()
    """What was done to the records beforehand, by preset."""
    parts: str = ""
    """What the parts of an outcome are: "site" (their mean is the result), "combiner", or nothing."""

    def runs(self, choice: Choice) -> Iterator[Run]:
        """Every run of this setting, by repeat, so that a worker prepares each split once."""
        asked = self.epsilons if choice.epsilons is None or self.varies != "epsilon" else choice.epsilons
        levels: list[float | None] = [*asked, *([None] if self.twins else [])]
        for repeat, epsilon, (preset, methods) in product(range(choice.repeats), levels, self.methods.items()):
            if preset in choice.presets:
                for method in filter(choice.takes, methods):
                    for options in self._options(preset):
                        yield Run(self.dataset, self.name, preset, method, epsilon, repeat, options)

    def measure(self, run: Run) -> Outcome:
        """Prepare the split, learn, and look at held-out records."""
        raise NotImplementedError

    def _options(self, preset: str) -> Iterator[tuple[tuple[str, Option], ...]]:
        varied: list[dict[str, Option]] = [{self.varies: value} for value in self.values] or [{}]
        tuned: list[dict[str, Option]] = [{"lambda": lam} for lam in self.lambdas if preset == PAPER] or [{}]
        for one, other in product(varied, tuned):
            yield tuple(sorted((dict(self.options) | one | other).items()))


@dataclass(frozen=True, slots=True)
class Choice:
    """What a user asked for."""

    repeats: int = 10
    epsilons: tuple[float, ...] | None = None
    methods: tuple[str, ...] | None = None
    presets: tuple[str, ...] = (PAPER, DEFAULT)

    def takes(self, method: str) -> bool:
        """Whether a method was asked for: by its name, in any case and without blanks."""
        return self.methods is None or plain(method) in {plain(asked) for asked in self.methods}


def plain(name: str) -> str:
    """A name as people type it: "PST-F (W)" is pst-f(w)."""
    return "".join(name.lower().split())


def score(margins: Array, y: NDArray[np.floating]) -> dict[str, float]:
    """How well margins tell the classes apart: the area under the ROC curve, and the error rate of their signs."""
    return {"auc": area_under_curve(margins, y), "error": float(np.mean(y * margins < 0))}
