"""20 Newsgroups, sci.* against talk.*: words weighed, documents of length one, then principal components.

Document counts and components need a corpus. The papers take the private documents themselves; ours takes documents of
the later test period that are neither trained nor tested on, without labels, as if anybody could read them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags_array
from scipy.sparse.linalg import svds

from crossward.privacy.noise import Array
from crossward_lab.bench.datasets.files import places
from crossward_lab.bench.experiments import OneSite
from crossward_lab.bench.public import Public, principal
from crossward_lab.bench.settings import PAPER

TRAIN, TEST, COLUMNS = 4321, 643, 100
EXTRA = 20
"""Singular vectors beyond the columns that are kept: components are found within their span."""


@cache
def _corpus() -> tuple[csr_matrix, Array, NDArray[np.bool_]]:
    """Word counts, labels, and which documents are of the training period."""
    with np.load(places("news20")[0]) as z:
        counts = csr_matrix((z["data"].astype(float), z["indices"].astype(np.int32), z["indptr"]), tuple(z["shape"]))
        is_sci = np.char.startswith(z["groups"][z["group"]], "sci.")
        return counts, np.where(is_sci, 1.0, -1.0), z["is_train"]


@cache
def _periods() -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Documents to train on, to test on, and public ones."""
    _, _, is_train = _corpus()
    later = np.random.default_rng(0).permutation(np.flatnonzero(~is_train))
    return np.flatnonzero(is_train), later[:TEST], later[TEST:]


@cache
def _columns(private: bool) -> tuple[Array, tuple[float, ...]]:
    """Every document in the components of the private or of the public ones, and how those vary in them."""
    counts, _, _ = _corpus()
    train, _, public = _periods()
    known = train if private else public
    present = np.asarray((counts[known] > 0).sum(axis=0)).ravel()
    rarity = np.log((1 + len(known)) / (1 + present))
    words = csr_matrix(counts.log1p() @ diags_array(rarity))
    lengths = np.sqrt(np.asarray(words.multiply(words).sum(axis=1)).ravel())
    words = csr_matrix(diags_array(1 / np.maximum(lengths, 1e-12)) @ words)
    _, _, span = svds(words[known], COLUMNS + EXTRA, rng=np.random.default_rng(0))
    inside = np.asarray(words @ span.T)
    basis = principal(inside[known], COLUMNS)
    return basis.of(inside), basis.variances


@cache
def _public(private: bool) -> Public:
    X, variances = _columns(private)
    sample = X[_periods()[2]]
    return Public(variances, sample=sample, sizes=tuple(np.sqrt(np.mean(sample**2, axis=0)).tolist()))


def draw(repeat: int, preset: str) -> OneSite:
    """000: 4,321 documents to train on, 643 later ones to test on."""
    X, _ = _columns(preset == PAPER)
    _, y, _ = _corpus()
    train, test, _ = _periods()
    rows = np.random.default_rng([repeat, 20]).permutation(train)[:TRAIN]
    return OneSite(_public(preset == PAPER), X[rows], y[rows], X[test], y[test])
