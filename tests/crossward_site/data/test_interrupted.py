"""Work on data that ends in the middle, or of which nobody knows whether it happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crossward.errors import StorageFailed
from crossward.privacy.budget import Budget
from crossward_service.db.engine import read, write
from crossward_site.data import service
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault, kept_files
from crossward_site.site import Site

MAP = DataMap(person="pid")
BUDGET = Budget.of(3)


def place(folder: Path, persons: int = 60) -> FilePlace:
    rows = "".join(f"p{k},{4 + k % 7},{k % 2},{'yes' if k % 3 else 'no'},{int(k % 5 == 0)}\n" for k in range(persons))
    (folder / "files" / "table.csv").write_text(f"pid,glucose,family,smoker,ill\n{rows}")
    return FilePlace(kind="csv", path="table.csv")


def files(site: Site) -> set[str]:
    return {path.name for path in site.home.glob("vault-*")}


def named(site: Site) -> set[str]:
    with read(site.engine) as connection:
        return kept_files(connection)


def test_what_was_written_down_stays_where_the_commit_seemed_to_fail(site, tmp_path, monkeypatch) -> None:
    @contextmanager
    def unheard(engine) -> Iterator:
        with write(engine) as connection:
            yield connection
        raise StorageFailed("The answer to the commit was lost.", "Ask again.")

    monkeypatch.setattr(service, "write", unheard)
    with pytest.raises(StorageFailed):
        Vault(site).open("a", place(tmp_path), MAP, BUDGET)
    assert len(files(site)) == 3
    assert named(site) == files(site)
    assert Vault(site).dataset("a").report.rows == 60
