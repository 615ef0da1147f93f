"""/policy: the steward's rules."""

from __future__ import annotations

from fastapi import APIRouter

from crossward_service.db.engine import read, write
from crossward_site.access import OpenSite
from crossward_site.policy.service import Policy

router = APIRouter(tags=["policy"])


@router.get("/policy")
def get_policy(site: OpenSite) -> Policy:
    """The rules now."""
    with read(site.engine) as connection:
        return Policy.load(connection)


@router.put("/policy")
def put_policy(site: OpenSite, policy: Policy) -> Policy:
    """New rules, for tasks that are not decided yet."""
    with write(site.engine) as connection:
        policy.save(connection)
    return policy
