"""Who the site is: its secret, its enrolment, the keys it trusts."""

from __future__ import annotations

import pytest

from crossward.errors import NotFound, NotReady, UnsafeKeyFile
from crossward.protocol import keys
from crossward_service.db.engine import write
from crossward_site import facts
from crossward_site.facts import StoredIdentity
from crossward_site.identity import pins
from crossward_site.identity.service import KEY, Identity, finish_rotation
from crossward_site.site import Site


def test_another_secret_is_not_this_sites(site, tmp_path) -> None:
    path = site.home / "site.secret"
    assert path.stat().st_mode & 0o777 == 0o600
    kept = path.read_text()
    url = str(site.engine.url)
    path.write_text("00" * 32)
    with pytest.raises(UnsafeKeyFile, match="not the secret of this database"):
        Site.open(url, site.home)
    path.unlink()
    with pytest.raises(UnsafeKeyFile, match="cannot be read"):
        Site.open(url, site.home)
    path.write_text(kept)
    path.chmod(0o644)
    with pytest.raises(UnsafeKeyFile, match="chmod"):
        Site.open(url, site.home)


def test_before_joining_a_site_has_no_identity(site) -> None:
    with pytest.raises(NotReady, match="joined no coordinator"):
        Identity.load(site)


def test_a_change_of_key_that_nobody_began_is_not_finished(site) -> None:
    with write(site.engine) as connection:
        stored = StoredIdentity(
            party="main", role="source", key_file=KEY, coordinator_url="http://127.0.0.1:1", coordinator_key="x"
        )
        facts.IDENTITY.put(connection, stored)
    keys.save(keys.generate(), site.home / KEY)
    before = sorted(site.home.iterdir())
    assert finish_rotation(site) is False
    assert sorted(site.home.iterdir()) == before


def test_only_a_pin_that_is_there_comes_off(site) -> None:
    with write(site.engine) as connection, pytest.raises(NotFound, match="pinned here"):
        pins.unpin(connection, "main", "none")
