"""A site on its own, without a coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crossward.learning.encoding import Category, Flag, Number, Schema
from crossward.study import Study, study_for
from crossward_site.site import Site

SCHEMA = Schema((Number("glucose", 3.0, 12.0, "mmol/L", 5.5), Flag("family"), Category("smoker", ("no", "yes"), "no")))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site.open(f"sqlite:///{tmp_path}/site.sqlite3", tmp_path / "home")
    yield site
    site.close()


@pytest.fixture
def study() -> Study:
    return study_for(SCHEMA, label={"name": "ill", "positive": True}, method="direct", targets=("here",))
