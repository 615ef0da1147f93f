"""Results that are about to be published."""

import pytest


@pytest.fixture
def ready(world):
    """A source that is about to publish; its study has two targets."""
    world.begin(sources=["main"], targets=["branch-1", "branch-2"])
    site = world.sites["main"]
    task = site.next()
    return world, site, task, site.result(task)


@pytest.fixture
def about(small):
    """The same over SQLite."""
    small.begin(sources=["main"], targets=["branch-1", "branch-2"])
    site = small.sites["main"]
    task = site.next()
    return small, site, task, site.result(task)
