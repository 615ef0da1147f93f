"""A paid AUC: of what, within which limits, and charged once before a record is read."""

from __future__ import annotations

import pytest

from crossward.errors import BudgetExceeded, InvalidSetting, StorageFailed, Unreachable
from crossward.study import wire
from crossward_site.data.service import Vault
from crossward_site.models import paid_auc
from crossward_site.models.service import Models


def ran(federation, given, **rules):
    """A study, carried as far as it goes."""
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target", rows=1500)
    branch.policy(**{"decide": "approve"} | rules)
    federation.start(given)
    main.settle()
    branch.drive()
    return main, branch


def upgrade(monkeypatch) -> None:
    """From here on the code has another version."""
    monkeypatch.setattr(wire, "__version__", "99.0")


def test_a_boosted_model_has_no_paid_auc(federation, study) -> None:
    _, branch = ran(federation, study(method="boosted"))
    with pytest.raises(InvalidSetting, match="nobody paid for"):
        paid_auc.paid_auc(branch.site, branch.runners[-1].coordinator(), Models(branch.site).of("sugar"), 1.0)
    assert branch.lines("reserve") == []


def test_a_model_made_of_releases_has_one(federation, study) -> None:
    _, branch = ran(federation, study(method="sourced"))
    served = Models(branch.site).of("sugar")
    assert 0 <= paid_auc.paid_auc(branch.site, branch.runners[-1].coordinator(), served, 2.0).auc <= 1


@pytest.mark.parametrize(
    ("rules", "words"), [({"epsilon_per_study": 3.0}, "3 per study"), ({"epsilon_lifetime": 3.0}, "3 in all")]
)
def test_a_paid_auc_keeps_to_the_policy(federation, study, rules, words) -> None:
    _, branch = ran(federation, study(method="direct"), **rules)
    served, line = Models(branch.site).of("sugar"), branch.runners[-1].coordinator()
    with pytest.raises(BudgetExceeded, match=words):
        paid_auc.paid_auc(branch.site, line, served, 1.5)
    assert len(branch.lines("reserve")) == 1
    first = paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert paid_auc.paid_auc(branch.site, line, served, 1.0) == first


def test_a_paid_auc_reads_nothing_before_its_charge_and_is_charged_once(federation, study, monkeypatch) -> None:
    _, branch = ran(federation, study(method="direct"), epsilon_lifetime=3.0)
    served, line = Models(branch.site).of("sugar"), branch.runners[-1].coordinator()
    seen = []

    def unreadable(self, *given):
        seen.append(len(federation.mirror("branch")))
        raise StorageFailed("The disk is gone.", "Bring it back.")

    with monkeypatch.context() as patched:
        patched.setattr(Vault, "rows", unreadable)
        with pytest.raises(StorageFailed):
            paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert len(branch.lines("reserve")) == 2
    assert seen == [len(branch.lines())]
    (branch.files / "table.csv").unlink()  # nobody reads it any more
    upgrade(monkeypatch)
    paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert len(branch.lines("reserve")) == 2


def test_a_version_that_comes_before_the_charge_is_the_one_that_is_charged(federation, study, monkeypatch) -> None:
    """By the numbers of the version before, what is charged could never be released."""
    _, branch = ran(federation, study(method="direct"))
    served, line = Models(branch.site).of("sugar"), branch.runners[-1].coordinator()

    def sync(site, coordinator, original=paid_auc.sync):
        monkeypatch.setattr(paid_auc, "sync", original)
        table = branch.files / "table.csv"
        head, *rows = table.read_text().splitlines()
        table.write_text("\n".join([head, *rows, *(f"new-{row}" for row in rows)]))
        Vault(site).refresh("patients")
        return original(site, coordinator)

    monkeypatch.setattr(paid_auc, "sync", sync)
    assert 0 <= paid_auc.paid_auc(branch.site, line, served, 1.0).auc <= 1
    assert len(branch.lines("release")) == len(branch.lines("reserve")) == 2


def test_what_the_mirror_does_not_have_is_told_to_nobody(federation, study, monkeypatch) -> None:
    """Of two copies of a site that drew noise for one charge, one has its line in the mirror: the other tells none."""
    _, branch = ran(federation, study(method="direct"))
    served, line = Models(branch.site).of("sugar"), branch.runners[-1].coordinator()
    sync, store = paid_auc.sync, paid_auc._store

    def unheard(site, coordinator):
        raise Unreachable("The coordinator does not answer.", "Wait.")

    def stored(site, task, document):
        monkeypatch.setattr(paid_auc, "sync", unheard)
        return store(site, task, document)

    monkeypatch.setattr(paid_auc, "_store", stored)
    for _ in range(2):
        with pytest.raises(Unreachable):
            paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert paid_auc.released(branch.site, "sugar") == []
    monkeypatch.setattr(paid_auc, "sync", sync)
    answer = paid_auc.paid_auc(branch.site, line, served, 1.0)
    assert paid_auc.released(branch.site, "sugar") == [answer]
    monkeypatch.setattr(paid_auc, "sync", unheard)
    assert paid_auc.paid_auc(branch.site, line, served, 1.0) == answer  # it was told before
    assert len(branch.lines("reserve")) == len(branch.lines("release")) == 2
