"""The steward's yes or no to a task that waits; and what was held and is wanted no more, until it was seen."""

from __future__ import annotations

from sqlalchemy import Connection

from crossward.errors import Conflict, CrosswardError, InvalidSetting
from crossward.privacy.budget import Cost
from crossward.protocol.constants import DeclineReason
from crossward.protocol.ledger.lines import LineKind, ReserveBody
from crossward.protocol.times import moment
from crossward_service.db.engine import read, write
from crossward_site.approvals.views import ApprovalView, CostView
from crossward_site.data.service import fitting, load_dataset
from crossward_site.site import Site
from crossward_site.tasks import service as tasks
from crossward_site.tasks.service import Task
from crossward_site.tasks.tables import TaskState
from crossward_site.tasks.training import PublicNumbers, announce, cells_charged, epsilon_asked, needs_data


def waiting(site: Site) -> list[ApprovalView]:
    """What the steward is asked, with all that the answer rests on."""
    with read(site.engine) as connection:
        asked = [(task, task.cause) for task in tasks.listed(connection, tasks.ASKING)]
        ended = [(task, f"{task.held} {task.cause}") for task in tasks.ended_while_held(connection)]
    return [_question(site, task, cause) for task, cause in (*asked, *ended)]


def _question(site: Site, task: Task, cause: str) -> ApprovalView:
    study = task.study
    with read(site.engine) as connection:
        names = [dataset.name for dataset in fitting(connection, study)]
        paid = _paid(site, connection, task)
    costs = [_cost(site, task, name, paid) for name in names] if needs_data(task) else []
    chosen = next((cost for cost in costs if cost.dataset == task.dataset and cost.epsilon is not None), None)
    announced = epsilon_asked(task) if cells_charged(task) and paid is None else 0.0
    return ApprovalView(
        task=task.id,
        state=task.state,
        cause=cause,
        study=study.id,
        title=study.title,
        purpose=study.purpose,
        method=study.method.name,
        explanation=study.method.explanation,
        chosen=None if study.chosen is None else study.chosen.why,
        lead=task.message.lead,
        role=task.role,
        epsilon=announced if chosen is None else chosen.epsilon or 0.0,
        epsilon_charged=0.0 if paid is None else paid.epsilon,
        epsilon_taken_before=0.0 if chosen is None else chosen.epsilon_taken_before or 0.0,
        dataset=task.dataset,
        datasets=names,
        costs=costs,
        since=moment(task.updated),
    )


def _paid(site: Site, connection: Connection, task: Task) -> Cost | None:
    """What the task was charged already; None if nothing. A task is charged once, so to approve it costs no more."""
    line = site.ledger.find(connection, LineKind.RESERVE, task.id)
    return line.body.cost if line is not None and isinstance(line.body, ReserveBody) else None


def _cost(site: Site, task: Task, dataset: str, paid: Cost | None) -> CostView:
    """What a person in this dataset would yet pay, all of its records together; or why it cannot be said."""
    try:
        with read(site.engine) as connection:
            numbers = PublicNumbers.load(connection, task, dataset)
            taken = site.ledger.taken_by(connection, task.study_id, but=task.id)
        inputs = sorted((signed.content() for signed in task.message.inputs), key=lambda message: message.party)
        announcement = announce(task, numbers, tuple(inputs))
    except CrosswardError as error:
        return CostView(dataset=dataset, problem=str(error))
    cost = announcement.cost if paid is None else Cost(0)
    return CostView(
        dataset=dataset,
        epsilon=cost.epsilon,
        delta=cost.delta,
        rows=announcement.rows,
        epsilon_taken_before=taken.epsilon,
    )


def answer(site: Site, task_id: str, approve: bool, dataset: str | None = None, words: str = "") -> Task:
    """Approve or refuse. `words` go with a refusal to the coordinator: they are public.

    To refuse what was held and then cancelled puts it off the list; nobody hears of it.
    """
    with write(site.engine) as connection:
        task = tasks.find(connection, task_id)
        dismissed = task.state is TaskState.CANCELLED and bool(task.held) and not approve
        if not dismissed and task.state not in tasks.ASKING:
            raise Conflict(f"Task {task_id} is {task.state}.", "Only a task that waits can be decided.")
        tasks.forget_held(connection, task_id)
        if not dismissed and not approve:
            tasks.decline(connection, task, DeclineReason.STEWARD, words or "The steward said no.", site.clock())
        elif not dismissed:
            if _paid(site, connection, task) is None:
                state, chosen = TaskState.APPROVED, _chosen(connection, task, dataset or task.dataset)
            else:  # for the data that it was charged for, and no others
                if dataset is not None and task.dataset is not None and dataset != task.dataset:
                    raise Conflict(f"The task was charged for {task.dataset}.", "Approve it for that, or refuse it.")
                state, chosen = TaskState.RESERVED, task.dataset or _chosen(connection, task, dataset)
            tasks.move(connection, task, state, site.clock(), dataset=chosen, cause="")
        return tasks.find(connection, task_id)


def _chosen(connection: Connection, task: Task, name: str | None) -> str | None:
    if not needs_data(task):
        return None
    if name is not None:
        if words := load_dataset(connection, name).misfit(task.study):
            raise InvalidSetting(f"{name} does not fit the study: {words}", "Choose another, or correct its mapping.")
        return name
    names = [dataset.name for dataset in fitting(connection, task.study)]
    if len(names) != 1:
        raise InvalidSetting(
            f"{len(names)} datasets fit the study: {', '.join(names)}.", "Name the dataset to use: --dataset."
        )
    return names[0]
