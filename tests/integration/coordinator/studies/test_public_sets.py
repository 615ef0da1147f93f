"""A public set must fit its study, and come before it starts."""

import pytest

from crossward.errors import Conflict, InvalidMessage


@pytest.mark.parametrize(
    ("csv", "cause"),
    [
        (b"", "empty"),
        (b"\xff", "UTF-8"),
        (b"a,a\n1,2\n", "twice"),
        (b"a,b\n1\n", "line 2: The header has 2 columns, this record 1"),
        (b"a,b\n1,2\n", "no column"),
        (b'a,b\n1,"2', "line 2: A quote is opened"),
        (b"a,b\n1," + b"2" * 2_000_000, "longer than"),
    ],
)
def test_a_public_set_must_fit_its_study(small, csv, cause):
    study = small.create(method={"name": "feature", "public_set": "survey"})
    with pytest.raises(InvalidMessage, match=cause):
        small.ask("lead", "PUT", f"/studies/{study.id}/public-set", body=csv)


def test_only_the_feature_method_has_a_public_set(small):
    study = small.create()
    with pytest.raises(Conflict, match="no public set"):
        small.ask("lead", "PUT", f"/studies/{study.id}/public-set", body=b"a\n1\n")


def test_a_cancelled_draft_takes_no_public_set(small):
    study = small.create(method={"name": "feature", "public_set": "survey"})
    small.ask("lead", "POST", f"/studies/{study.id}/cancel")
    with pytest.raises(Conflict, match="cancelled"):
        small.ask("lead", "PUT", f"/studies/{study.id}/public-set", body=b"a\n1\n")
