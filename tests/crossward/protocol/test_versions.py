"""One version apart is bridged; further apart is refused, with the name of the side that must be upgraded."""

import pytest

from crossward.errors import UnknownVersion
from crossward.protocol import versions
from crossward.protocol.tasks import HeartbeatMessage


@pytest.fixture(params=[1, 2, 5])
def newest(request, monkeypatch):
    monkeypatch.setattr(versions, "NEWEST", request.param)
    return request.param


def test_two_versions_are_understood(newest):
    assert list(versions.understood()) == [version for version in (newest - 1, newest) if version]


@pytest.mark.parametrize("apart", [-1, 0, 1])
def test_one_apart_speaks_the_older(newest, apart):
    theirs = newest + apart
    if theirs:
        assert versions.agree(theirs, they="the site", we="the coordinator") == min(theirs, newest)
        assert min(theirs, newest) in versions.understood()


@pytest.mark.parametrize("theirs", [0, -1, 0.9, 1.0, True, "1", None])
def test_what_is_no_version_is_refused(newest, theirs):
    with pytest.raises(UnknownVersion, match="names no version"):
        versions.agree(theirs, they="the coordinator", we="this site")


def test_further_apart_is_refused_by_name(newest):
    with pytest.raises(UnknownVersion, match=r"The site speaks version .* Upgrade the coordinator\."):
        versions.agree(newest + 2, they="the site", we="the coordinator")
    if newest > 2:
        with pytest.raises(UnknownVersion, match=r"Upgrade the site\."):
            versions.agree(newest - 2, they="the site", we="the coordinator")


def test_messages_of_both_versions_are_read_and_no_others(newest):
    assert HeartbeatMessage(task="t", progress=0).version == newest
    for version in versions.understood():
        sent = HeartbeatMessage(version=version, task="t", progress=0)
        assert HeartbeatMessage.from_json(sent.canonical()) == sent
    later = HeartbeatMessage(task="t", progress=0).model_copy(update={"version": newest + 1})
    with pytest.raises(UnknownVersion, match=r"Upgrade this side\."):
        HeartbeatMessage.from_json(later.canonical())
    if newest > 2:
        earlier = later.model_copy(update={"version": newest - 2})
        with pytest.raises(UnknownVersion, match=r"Upgrade the side that wrote it\."):
            HeartbeatMessage.from_json(earlier.canonical())
