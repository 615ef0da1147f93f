"""One step of a task: from a state that is written down to the next."""

from __future__ import annotations

from contextlib import suppress

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import Connection

from crossward.client.remote import remote
from crossward.errors import (
    BudgetExceeded,
    Conflict,
    Forged,
    InvalidInput,
    InvalidMessage,
    InvalidSetting,
    NotConverged,
    NotFound,
    TooFewRecords,
    UnknownDataset,
    UnknownParty,
)
from crossward.protocol.constants import COORDINATOR, PAID_AUC, DeclineReason, Role, TaskKind
from crossward.protocol.ledger.lines import LineKind
from crossward.protocol.messages import ModelMessage
from crossward.protocol.tasks import DeclineMessage, HeartbeatMessage
from crossward_service.db.engine import read, write
from crossward_site.coordinator import Coordinator
from crossward_site.data.service import fitting
from crossward_site.identity.pins import has_pins, key_finder
from crossward_site.identity.service import Identity
from crossward_site.ledger.service import sync
from crossward_site.policy import service as policy
from crossward_site.site import Site
from crossward_site.tasks import outbox
from crossward_site.tasks import service as tasks
from crossward_site.tasks.service import Task
from crossward_site.tasks.tables import TaskState
from crossward_site.tasks.training import (
    Announcement,
    PublicNumbers,
    announce,
    needs_data,
    read_inputs,
    rows_for,
    to_send,
    train,
)

UNFIT = "The data do not fit: "
UNWANTED = "The study has ended, or goes on without it."


class Declined(Exception):
    """The task is refused, for a reason in public words that rests on public numbers alone."""

    def __init__(self, reason: DeclineReason, words: str) -> None:
        super().__init__(words)
        self.reason = reason
        self.words = words

    def write(self, site: Site, connection: Connection, task: Task) -> None:
        """Write the refusal down; it is sent in a step of its own. What was charged is never refused by itself."""
        if task.state is TaskState.RESERVED:  # it was paid for: what is in the way, the steward must see to
            tasks.hold(connection, task, self.words, site.clock())
        else:
            tasks.decline(connection, task, self.reason, self.words, site.clock())


class Held(Exception):
    """Only the steward can go on: to say why to the coordinator would tell about records, or ask it about itself."""

    def write(self, site: Site, connection: Connection, task: Task) -> None:
        """Leave the task to the steward."""
        tasks.hold(connection, task, str(self), site.clock())


def beat_of(task: Task) -> HeartbeatMessage:
    """A task's sign of life. It says the same whether the task waits for a steward, for its turn, or for nothing."""
    return HeartbeatMessage(task=task.id, attempt=task.attempt, progress=task.progress, note="waiting at the site")


def advance(site: Site, coordinator: Coordinator, task: Task) -> Task:
    """Take one step and write it down; gives the task as it then is."""
    try:
        _STEPS[task.state](site, coordinator, task)
    except (Declined, Held) as refusal:
        with write(site.engine) as connection:
            now = tasks.find(connection, task.id)
            if now.state in tasks.UNRELEASED:  # not cancelled meanwhile
                refusal.write(site, connection, now)
    with read(site.engine) as connection:
        return tasks.find(connection, task.id)


# -- approve --------------------------------------------------------------------------------------------------------
def _approve(site: Site, coordinator: Coordinator, task: Task) -> None:
    """Policy refuses, approves, or waits for the steward: for every task, also one that reads no records."""
    announcement, ambiguous = _announced(site, coordinator, task)
    with write(site.engine) as connection:
        body = announcement.body
        if body is None:
            verdict = policy.judge(connection, task.study, task.message.lead, announcement.rows_or_none)
        else:
            lead = task.message.lead
            verdict = policy.judge_charge(site, connection, task.study, lead, body, announcement.rows)
        _check_verdict(verdict)
        asks = verdict.decision is policy.Decision.ASK or ambiguous
        state = TaskState.WAITING if asks else TaskState.APPROVED
        words = "Several datasets fit: name one." if ambiguous else ""
        tasks.move(connection, task, state, site.clock(), dataset=announcement.dataset, cause=words)


def _check_verdict(verdict: policy.Verdict) -> None:
    if verdict.decision is policy.Decision.REFUSE:
        raise Declined(DeclineReason.POLICY, verdict.words)


def _announced(site: Site, coordinator: Coordinator, task: Task) -> tuple[Announcement, bool]:
    """What the task would release, and whether it is open from which dataset: then nothing is announced yet."""
    _check_mine(coordinator.identity, task)
    with read(site.engine) as connection:
        _check_same(site, connection, task)
        names = _datasets(site, connection, task)
        numbers = _numbers(site, connection, task, names[0]) if len(names) == 1 else None
    inputs = _inputs(site, coordinator, task)
    try:
        return announce(task, numbers, inputs), len(names) > 1
    except TooFewRecords:  # known from public counts alone
        raise Declined(DeclineReason.UNFIT_DATA, "The site has too few records.") from None
    except InvalidSetting as error:
        raise Declined(DeclineReason.UNFIT_INPUTS, error.cause) from None


def _check_mine(identity: Identity, task: Task) -> None:
    """A source trains as a source, a target as a target, neither for the coordinator, nor under another's name."""
    study = task.study
    parties = study.sources if task.role is Role.SOURCE else study.targets
    if task.kind is not TaskKind.of(identity.role) or identity.party not in parties:
        raise Declined(
            DeclineReason.UNSUPPORTED, f"{identity.party} is a {identity.role}, and not this study's {task.role}."
        )
    if COORDINATOR in (*study.sources, *study.targets):
        raise Declined(DeclineReason.UNSUPPORTED, f"No party of a study may be called {COORDINATOR!r}.")
    if task.id.startswith(PAID_AUC):
        raise Declined(DeclineReason.UNSUPPORTED, f"No task's id may begin with {PAID_AUC!r}.")


def _check_same(site: Site, connection: Connection, task: Task) -> None:
    """A study's id must not belong to an earlier study with another hash, by the ledger or by the tasks taken."""
    known = site.ledger.hashes_of(connection, task.study_id) or {tasks.first_hash(connection, task.study_id)}
    if task.message.study_hash not in known:
        raise Declined(DeclineReason.UNSUPPORTED, f"The site knows another study by the id {task.study_id}.")


def _datasets(site: Site, connection: Connection, task: Task) -> list[str]:
    if not needs_data(task):
        return []
    if task.dataset:
        return [task.dataset]
    names = [dataset.name for dataset in fitting(connection, task.study)]
    if not names:
        raise Declined(DeclineReason.NO_DATA, "The site has no dataset with the study's features and label.")
    return names


def _numbers(site: Site, connection: Connection, task: Task, dataset: str) -> PublicNumbers:
    try:
        return PublicNumbers.load(connection, task, dataset)
    except UnknownDataset:  # it was undone, or lost with the table of seats
        if site.ledger.find(connection, LineKind.RESERVE, task.id) is None:
            raise Declined(DeclineReason.NO_DATA, "The dataset is not open any more.") from None
        raise Held(
            f"The task was charged for a version of {dataset} that is not here: restore a backup that has it, or "
            "refuse the task."
        ) from None


def _inputs(site: Site, coordinator: Coordinator, task: Task) -> tuple[ModelMessage, ...]:
    find = key_finder(site, coordinator, task.message.inputs, aggregate=task.study.method.aggregates)

    def key_of(party: str, name: str) -> Ed25519PublicKey:
        try:
            return find(party, name)
        except Forged as error:
            with read(site.engine) as connection:
                if not has_pins(connection, party):
                    raise
            raise Held(str(error)) from None  # a new key, or a false one: only a person can tell

    try:
        return read_inputs(task, key_of)
    except (InvalidMessage, Forged, UnknownParty, NotFound) as error:
        raise Declined(DeclineReason.UNFIT_INPUTS, error.cause) from None


# -- reserve --------------------------------------------------------------------------------------------------------
def _reserve(site: Site, coordinator: Coordinator, task: Task) -> None:
    """Charge, durably, once the mirror agrees. No record is read before: what it says must not decide on the charge."""
    announcement, ambiguous = _announced(site, coordinator, task)
    if ambiguous:
        raise Declined(DeclineReason.NO_DATA, "The site has not said which dataset the study may use.")
    sync(site, coordinator)
    if _is_over(coordinator, task):
        with write(site.engine) as connection:
            tasks.move(connection, task, TaskState.CANCELLED, site.clock(), cause=UNWANTED)
        return
    try:
        with write(site.engine) as connection:
            version = None if announcement.numbers is None else announcement.numbers.version
            chosen = {"dataset": announcement.dataset, "version": version, "progress": 0.1}
            site.ledger.extend(connection, ())  # takes the ledger's lock: no version comes or goes before the charge
            if tasks.move(connection, task, TaskState.RESERVED, site.clock(), **chosen):
                _check_numbers(connection, announcement)
                _check_verdict(_charged(site, connection, announcement))
    except BudgetExceeded as error:
        raise Declined(DeclineReason.BUDGET, error.cause) from None
    site.machine.reach("after-reserve")


def _check_numbers(connection: Connection, announcement: Announcement) -> None:
    """What is charged is the version of this moment, and is bound to it: the next one may come right after."""
    announced = announcement.numbers
    if announced is not None and announced != PublicNumbers.load(connection, announcement.task, announced.dataset):
        raise Conflict(f"{announced.dataset} has got a new version meanwhile.", "The task is tried again by itself.")


def _is_over(coordinator: Coordinator, task: Task) -> bool:
    """Whether nobody waits for the task any more: an approval that comes after its study's end must cost nothing.

    An answer that tells nothing is raised, and the task put off: what may be unwanted is not charged.
    """
    try:
        return not coordinator.heartbeat(beat_of(task))
    except NotFound:
        return True
    except Conflict:  # its lease ran out and this site has taken it again: it is wanted
        return False


def _charged(site: Site, connection: Connection, announcement: Announcement) -> policy.Verdict:
    task, body = announcement.task, announcement.body
    if body is None:
        return policy.judge(connection, task.study, task.message.lead, announcement.rows_or_none)
    return policy.charge(site, connection, task.study, task.message.lead, body, announcement.rows)


# -- train and store ------------------------------------------------------------------------------------------------
def _train(site: Site, coordinator: Coordinator, task: Task) -> None:
    """Train under the reservation, as often as it takes, and fix what comes out. The mirror knows the charge first."""
    sync(site, coordinator)
    announcement, _ = _announced(site, coordinator, task)
    _check_reservation(site, announcement)
    with write(site.engine) as connection:
        if not tasks.move(connection, task, TaskState.RESERVED, site.clock(), progress=0.3):
            return
    site.machine.reach("during-train")
    try:
        rows = None if announcement.numbers is None else rows_for(site, task, announcement.numbers)
        trained = train(announcement, rows, site.machine.noise)
    except NotConverged as error:  # it depends on the records, as all that goes wrong from here on
        raise Held(f"{error.cause} The charge stands; approve to train again.") from None
    except InvalidInput as error:
        raise Held(f"{UNFIT}{error}") from None
    message = to_send(announcement, trained, coordinator.identity.party)
    site.machine.reach("before-store")
    outbox.store(site, coordinator.identity, announcement, trained, message)
    site.machine.reach("after-store")


def _check_reservation(site: Site, announcement: Announcement) -> None:
    """The reservation describes one release; data that have changed since, or a release that is lost, need another."""
    body, task = announcement.body, announcement.task.id
    if body is None:
        return
    with read(site.engine) as connection:
        line = site.ledger.find(connection, LineKind.RESERVE, task)
        released = site.ledger.find(connection, LineKind.RELEASE, task) is not None
        recovery = site.ledger.recovery(connection)
        lost = released and not outbox.is_stored(connection, task)
    if lost:  # from an old backup: to train again would make other bytes than the ledger's
        raise Held("The ledger has a release of this task, and this database does not have its bytes: refuse the task.")
    if line is not None and recovery is not None and line.sequence < recovery.sequence and not released:
        raise Held("The table of seats was lost after the task was charged: nothing can be released. Refuse the task.")
    if line is None or line.body != body:
        raise Held(f"{UNFIT}what would be released is not what was charged.")


# -- publish and settle ---------------------------------------------------------------------------------------------
def _publish(site: Site, coordinator: Coordinator, task: Task) -> None:
    """Send the stored bytes until a receipt comes, and keep it.

    The mirror has the line that names the bytes before they leave. Of two copies of this site that drew noise for one
    charge, the mirror takes the line of one, and the other's bytes never leave.
    """
    sync(site, coordinator)
    try:
        receipt = outbox.publish(site, coordinator, task)
    except (Conflict, NotFound, InvalidMessage) as error:
        if remote(error) is None:  # a receipt that is not the coordinator's settles nothing
            raise
        with write(site.engine) as connection:
            tasks.move(connection, task, TaskState.REFUSED, site.clock(), cause=error.cause)
        return
    site.machine.reach("before-settle")
    outbox.settle(site, task, receipt)


def _decline(site: Site, coordinator: Coordinator, task: Task) -> None:
    """Tell the coordinator that the task will not be done."""
    reason = task.reason or DeclineReason.POLICY
    with suppress(Conflict, NotFound):  # it has ended there in another way
        message = DeclineMessage(task=task.id, reason=reason, text=task.cause[:2000])
        coordinator.decline(message)
    with write(site.engine) as connection:
        tasks.move(connection, task, TaskState.DECLINED, site.clock())


_STEPS = {
    TaskState.TAKEN: _approve,
    TaskState.APPROVED: _reserve,
    TaskState.RESERVED: _train,
    TaskState.STORED: _publish,
    TaskState.DECLINING: _decline,
}
