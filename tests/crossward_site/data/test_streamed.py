"""The same model from the same records, whatever files, batches and order they came in, in memory or from disk."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossward.learning.plr import PLR
from crossward.learning.records import Ball
from crossward.privacy.budget import NON_PRIVATE, Budget
from crossward.protocol.constants import Role
from crossward.study import work
from crossward_connector.tables import Limits
from crossward_site.data.connector import InProcess
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault

ROWS = 15_000
LEARNER = PLR(Ball(1.5, intercept=0.4), 0.1, NON_PRIVATE, tolerance=2e-7)  # over lambda n: 2e-10 between two solutions


def table() -> pa.Table:
    draw = np.random.default_rng(7)
    glucose, family = draw.normal(7, 3, ROWS), draw.random(ROWS) < 0.4
    ill = draw.random(ROWS) < 1 / (1 + np.exp(3 - glucose / 3 - family))
    texts = [f"{value:.1f}" if k % 9 else "<3.0" for k, value in enumerate(glucose)]
    smoker = np.where(draw.random(ROWS) < 0.3, "yes", "no")
    return pa.table(
        {"pid": [f"p{k}" for k in range(ROWS)], "glucose": texts, "family": family, "smoker": smoker, "ill": ill}
    )


def write_parts(folder: Path, whole: pa.Table, cuts: list[int]) -> None:
    folder.mkdir()
    edges = [0, *cuts, len(whole)]
    for number, (start, stop) in enumerate(pairwise(edges)):
        pq.write_table(whole.slice(start, stop - start), folder / f"{number:02}.parquet")


@pytest.mark.parametrize("memory", [1 << 28, 20_000], ids=["in-memory", "on-disk"])
def test_neither_files_nor_batches_nor_their_order_change_the_weights(site, study, tmp_path, memory) -> None:
    files, whole = tmp_path / "files", table()
    write_parts(files / "one", whole, [])
    write_parts(files / "many", whole, [1, 700, 701, 9999])
    write_parts(files / "shuffled", whole.take(np.random.default_rng(3).permutation(ROWS)), [999])
    few = replace(site, connectors=InProcess(site.connectors.sources, Limits(batch_rows=170)), memory=memory)
    fits = []
    for name, home in (("one", site), ("many", few), ("shuffled", few)):
        place, budget = FilePlace(kind="parquet", path=name), Budget.of(3)
        Vault(home).open(name, place, DataMap(person="pid"), budget)
        rows = Vault(home).rows(study, Role.TARGET, name, work.trained_levels(study, Role.TARGET))
        assert rows.X.on_disk == (home is few and memory == 20_000)
        fits.append(LEARNER.fit(rows.X, rows.y).weights)
    for weights in fits[1:]:
        np.testing.assert_allclose(weights, fits[0], rtol=1e-9, atol=1e-9)
