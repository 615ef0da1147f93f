"""A site on its own, without a coordinator. Its one root is the folder `files`; places are read in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crossward.learning.encoding import Category, Flag, Number, Schema
from crossward.study import Study, study_for
from crossward_site.data.connector import InProcess
from crossward_site.data.places import Sources
from crossward_site.site import Site

SCHEMA = Schema((Number("glucose", 3.0, 12.0, "mmol/L", 5.5), Flag("family"), Category("smoker", ("no", "yes"), "no")))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "files").mkdir()
    connectors = InProcess(Sources({"files": tmp_path / "files"}, closed=(tmp_path / "home",)))
    site = Site.open(f"sqlite:///{tmp_path}/site.sqlite3", tmp_path / "home", connectors=connectors)
    yield site
    site.close()


@pytest.fixture
def study() -> Study:
    return study_for(SCHEMA, label={"name": "ill", "positive": True}, method="direct", targets=("here",))
