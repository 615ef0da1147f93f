"""MNIST digits in principal components: of the digits at hand, as the papers do it, or of other, public digits.

The first is a leak: the components are computed from the private records and not paid for. Results say so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossward.privacy.noise import Array
from crossward_lab.bench.datasets.files import places
from crossward_lab.bench.experiments import OneSite, Sites, Target
from crossward_lab.bench.public import Basis, Public, principal
from crossward_lab.bench.settings import PAPER

Labels = NDArray[np.uint8]


@cache
def _pixels() -> dict[str, NDArray[Any]]:
    with np.load(places("mnist")[0]) as found:
        return dict(found)


def _images(part: str, digits: tuple[int, ...]) -> tuple[Array, Labels]:
    labels = _pixels()[f"y_{part}"]
    kept = np.isin(labels, digits)
    return _pixels()[f"X_{part}"][kept] / 255.0, labels[kept]


@cache
def _basis(digits: tuple[int, ...], columns: int) -> Basis:
    return principal(_images("train", digits)[0], columns)


@cache
def _columns(part: str, digits: tuple[int, ...], basis: tuple[int, ...], columns: int) -> tuple[Array, Labels]:
    """The images of these digits in the components of those."""
    images, labels = _images(part, digits)
    return _basis(basis, columns).of(images), labels


@cache
def _public(others: tuple[int, ...], basis: tuple[int, ...], columns: int) -> Public:
    """What other, public digits show of the columns."""
    sample = _columns("train", others, basis, columns)[0]
    sizes = np.sqrt(np.mean(sample**2, axis=0)).tolist()
    return Public(_basis(basis, columns).variances, sample=sample, sizes=tuple(sizes))


def one_against_another(
    pair: tuple[int, int], others: tuple[int, ...], columns: int, train: int, test: int
) -> Callable[[int, str], OneSite]:
    """000: two digits, a random sample of them to train on and to test on."""

    def draw(repeat: int, preset: str) -> OneSite:
        basis = tuple(sorted(pair)) if preset == PAPER else others
        X, labels = _columns("train", tuple(sorted(pair)), basis, columns)
        order = np.random.default_rng([repeat, *pair]).permutation(len(labels))[: train + test]
        X, y = X[order], np.where(labels[order] == pair[0], 1.0, -1.0)
        return OneSite(_public(others, basis, columns), X[:train], y[:train], X[train:], y[train:])

    return draw


def to_another_pair(
    source: tuple[int, int], target: tuple[int, int], others: tuple[int, ...], columns: int, sizes: tuple[int, int]
) -> Callable[[int, str], Sites]:
    """002: the source tells one pair of digits apart, the target another; they share the first digit, not its images.

    The papers test on 200 images of the target; here it is all of MNIST's test images of these digits, which is the
    same quantity with less chance in it.
    """
    digits = tuple(sorted({*source, *target}))

    def draw(repeat: int, preset: str) -> Sites:
        basis = digits if preset == PAPER else others
        X, labels = _columns("train", digits, basis, columns)
        rng = np.random.default_rng([repeat, *source, *target])
        shared = rng.permutation(np.flatnonzero(labels == source[0]))
        first, second = np.array_split(shared, 2)
        rows = []
        for zeros, (_, other), size in zip((first, second), (source, target), sizes, strict=True):
            pool = np.concatenate([zeros, np.flatnonzero(labels == other)])
            # Both digits are as frequent in the sample as in MNIST, though each site has half of the shared digit.
            share = len(shared) / (len(shared) + np.count_nonzero(labels == other))
            count = rng.binomial(size, share)
            rows.append(np.concatenate([zeros[:count], rng.permutation(pool[len(zeros) :])[: size - count]]))
        X_test, tested = _columns("test", tuple(sorted(target)), basis, columns)
        y_test = np.where(tested == target[0], 1.0, -1.0)
        y = np.where(labels == source[0], 1.0, -1.0)
        site = Target("target", X[rows[1]], y[rows[1]], X_test, y_test)
        return Sites(_public(others, basis, columns), X[rows[0]], y[rows[0]], (site,))

    return draw
