"""The whole site at a glance."""

from __future__ import annotations

from typing import Any

from crossward.errors import CrosswardError, NotReady
from crossward.protocol.keys import public_text
from crossward.protocol.ledger.lines import Head
from crossward.protocol.ledger.rules import Balance
from crossward.version import __version__
from crossward_service.db.engine import read
from crossward_site import outbox, tasks
from crossward_site.identity import Identity
from crossward_site.site import Site
from crossward_site.sync import confirmed
from crossward_site.vault import Dataset, Vault


def status(site: Site, trouble: str = "") -> dict[str, Any]:
    """Who the site is, what it holds and has spent, what it does, and whether its ledger is sound."""
    vault = Vault(site)
    with read(site.engine) as connection:
        own, mirror = site.ledger.head(connection), confirmed(connection)
        open_tasks = tasks.listed(connection, tasks.OPEN)
        unsettled = outbox.waiting(connection)
    stopped = site.stopped
    return {
        "version": __version__,
        "identity": identity_of(site),
        "health": "stopped" if stopped else "trouble" if trouble else "well",
        "stopped": stopped,
        "trouble": trouble,
        "datasets": [dataset_of(dataset, vault.balance(dataset.name)) for dataset in vault.datasets()],
        "tasks": [task_of(task) for task in open_tasks],
        "outbox": unsettled,
        "ledger": {"head": _head(own), "confirmed": _head(mirror), "unconfirmed": own.sequence - mirror.sequence},
    }


def identity_of(site: Site) -> dict[str, Any] | None:
    """Who the site is, once it has joined."""
    try:
        return told(Identity.load(site))
    except NotReady:
        return None


def told(identity: Identity) -> dict[str, Any]:
    """An identity without its secret."""
    return {
        "party": identity.party,
        "role": identity.role,
        "key_id": identity.key_id,
        "public_key": public_text(identity.key),
        "coordinator": identity.coordinator_url,
        "coordinator_key": identity.coordinator_key,
    }


def _head(head: Head) -> dict[str, Any]:
    return {"sequence": head.sequence, "hash": head.hash}


def dataset_of(dataset: Dataset, balance: Balance) -> dict[str, Any]:
    """A dataset with its budget: spent is what the dearest cell has spent, left what it could still pay at once."""
    spend, opened = balance.spend, balance.opened
    return {
        "name": dataset.name,
        "version": dataset.version,
        "place": {"kind": dataset.place.kind, "where": dataset.place.where},
        "rows": dataset.report["rows"],
        "persons": dataset.report["persons"],
        "records_per_person": dataset.records_per_person,
        "filter": opened.filter,
        "epsilon": opened.budget.nano_epsilon / 1e9,
        "delta": opened.budget.atto_delta / 1e18,
        "epsilon_spent": spend.nano_epsilon / 1e9,
        "delta_spent": spend.atto_delta / 1e18,
        "epsilon_left": balance.left(range(opened.cells)),
        "cells": [{"epsilon_spent": cell.nano_epsilon / 1e9, "releases": cell.releases} for cell in balance.spends],
    }


def task_of(task: tasks.Task) -> dict[str, Any]:
    """A task as the steward sees it."""
    return {
        "id": task.id,
        "study": task.study_id,
        "kind": task.kind,
        "state": task.state,
        "dataset": task.dataset,
        "reason": task.reason,
        "cause": task.cause,
        "trouble": task.trouble,
        "progress": task.progress,
        "attempt": task.attempt,
        "taken": task.taken,
        "updated": task.updated,
    }


def verify(site: Site) -> dict[str, Any]:
    """Check the whole ledger; the first line that is wrong is named."""
    with read(site.engine) as connection:
        try:
            verified = site.ledger.verify(connection)
        except CrosswardError as error:
            return {"sound": False, "line": getattr(error, "line", None), "cause": error.cause, "fix": error.fix}
        mirror = confirmed(connection)
        agreed = site.ledger.contains(connection, mirror)
    head = verified.head
    cause = "" if agreed else f"Line {mirror.sequence} is not the one that the coordinator confirmed."
    return {"sound": agreed, "line": None if agreed else mirror.sequence, "cause": cause, "head": _head(head)}
