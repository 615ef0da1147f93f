"""The steward's yes or no to a task that waits; and what was held and is wanted no more, until it was seen."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from crossward.errors import Conflict, CrosswardError, InvalidSetting
from crossward.privacy.budget import Cost
from crossward.protocol.canonical import sha256
from crossward.protocol.ledger.lines import ReserveBody
from crossward.study.learners import charged_cells
from crossward_service.db.engine import read, write
from crossward_site import facts, tasks
from crossward_site.policy import taken_by
from crossward_site.site import Site
from crossward_site.tasks import Task
from crossward_site.training import announce, needs_data
from crossward_site.vault import Vault


def waiting(site: Site) -> list[dict[str, Any]]:
    """What the steward is asked, with all that the answer rests on."""
    with read(site.engine) as connection:
        asked = [(task, task.cause) for task in tasks.listed(connection, tasks.ASKING)]
        ended = [(task, _held(connection, task.id)) for task in tasks.listed(connection, ("cancelled",))]
    ended = [(task, f"{cause} {task.cause}") for task, cause in ended if cause]
    return [_shown(site, task, cause) for task, cause in (*asked, *ended)]


def note_held(connection: Connection, task: str, cause: str | None) -> None:
    """Remember why a task is held, also when its study is cancelled; None once the steward has decided."""
    facts.put(connection, _fact(task), cause)


def _held(connection: Connection, task: str) -> str:
    return facts.get(connection, _fact(task)) or ""


def _fact(task: str) -> str:
    return f"held:{sha256(task.encode())[:48]}"


def _shown(site: Site, task: Task, cause: str) -> dict[str, Any]:
    study = task.study
    epsilon = study.epsilon.source if task.role == "source" else study.epsilon.target
    fitting = [dataset.name for dataset in Vault(site).for_study(study)]
    paid = _paid(site, task)
    costs = [_cost(site, task, name, paid) for name in fitting] if needs_data(task) else []
    chosen = next((cost for cost in costs if cost["dataset"] == task.dataset), {})
    return {
        "task": task.id,
        "state": task.state,
        "cause": cause,
        "study": study.id,
        "title": study.title,
        "purpose": study.purpose,
        "method": study.method.name,
        "chosen": None if study.chosen is None else study.chosen.why,
        "lead": task.message.lead,
        "role": task.role,
        "epsilon": chosen.get("epsilon", epsilon if charged_cells(study, task.role) and paid is None else 0.0),
        "epsilon_charged": 0.0 if paid is None else paid.nano_epsilon / 1e9,
        "epsilon_taken_before": chosen.get("epsilon_taken_before", 0.0),
        "dataset": task.dataset,
        "datasets": fitting,
        "costs": costs,
        "since": task.updated,
    }


def _paid(site: Site, task: Task) -> Cost | None:
    """What the task was charged already; None if nothing. A task is charged once, so to approve it costs no more."""
    with read(site.engine) as connection:
        line = site.ledger.find(connection, "reserve", task.id)
    return line.body.cost if line is not None and isinstance(line.body, ReserveBody) else None


def _cost(site: Site, task: Task, dataset: str, paid: Cost | None) -> dict[str, Any]:
    """What a person in this dataset would yet pay, all of its records together; or why it cannot be said."""
    try:
        inputs = sorted((signed.content() for signed in task.message.inputs), key=lambda message: message.party)
        announced = announce(site, task, dataset, tuple(inputs))
    except CrosswardError as error:
        return {"dataset": dataset, "problem": str(error)}
    with read(site.engine) as connection:
        taken = taken_by(site, connection, task.study_id, dataset, but=task.id)
    cost = announced.cost if paid is None else Cost(0)
    return {
        "dataset": dataset,
        "epsilon": cost.nano_epsilon / 1e9,
        "delta": cost.atto_delta / 1e18,
        "rows": announced.rows,
        "epsilon_taken_before": taken.nano_epsilon / 1e9,
    }


def answer(site: Site, task_id: str, approve: bool, dataset: str | None = None, words: str = "") -> Task:
    """Approve or refuse. `words` go with a refusal to the coordinator: they are public.

    To refuse what was held and then cancelled puts it off the list; nobody hears of it.
    """
    with write(site.engine) as connection:
        task = tasks.find(connection, task_id)
        seen = task.state == "cancelled" and _held(connection, task_id) and not approve
        if not seen and task.state not in tasks.ASKING:
            raise Conflict(f"Task {task_id} is {task.state}.", "Only a task that waits can be decided.")
        note_held(connection, task_id, None)
        if seen:
            return task
        if not approve:
            tasks.decline(connection, task, "steward", words or "The steward said no.", site.clock())
        else:
            chosen = _chosen(site, task, dataset or task.dataset)
            reserved = site.ledger.find(connection, "reserve", task_id) is not None
            state = "reserved" if reserved else "approved"
            tasks.move(connection, task, state, site.clock(), dataset=chosen, cause="")
        return tasks.find(connection, task_id)


def _chosen(site: Site, task: Task, name: str | None) -> str | None:
    if not needs_data(task):
        return None
    if name is not None:
        if words := Vault(site).dataset(name).misfit(task.study):
            raise InvalidSetting(f"{name} does not fit the study: {words}", "Choose another, or correct its mapping.")
        return name
    names = [found.name for found in Vault(site).for_study(task.study)]
    if len(names) != 1:
        raise InvalidSetting(f"{len(names)} datasets fit the study: {', '.join(names)}.", "Name the dataset to use.")
    return names[0]
