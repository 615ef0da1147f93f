"""What people do in a history: leads start and cancel studies, operators and stewards see to what has stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from crossward.errors import ChainBroken, CrosswardError, InvalidSetting, KeyRevoked, LedgerRefused
from crossward.methods import METHODS as REGISTRY
from crossward.study import Study, study_for
from crossward_lab.disasters.federation import SCHEMA, URL, Hospital, RunningSite, ask
from crossward_lab.disasters.host import Gone
from crossward_lab.disasters.loop import blocking
from crossward_lab.disasters.plan import Kind
from crossward_site.approvals import service as approvals
from crossward_site.identity.service import Link, join, rotate
from crossward_site.ledger.service import reconcile

if TYPE_CHECKING:
    from crossward_lab.disasters.history import World

T = TypeVar("T")

TRIES = 8
"""How often a lead tries to start a study."""

HOPELESS = ("refuse the task", "give the task up", "not what was charged")
"""What a task that is held can never be done for."""

METHODS = ("simcomb", "pst-h", "direct", "average", "pst-s")


def draw_study(world: World, number: int) -> Study:
    """A study of some of the parties, which not all of them may be able to pay."""
    draw, plan = world.draw, world.plan
    sources = sorted(draw.sample(world.names("source"), plan.sources))
    targets = sorted(draw.sample(world.names("target"), plan.targets))
    method = draw.choice(METHODS)
    quorum = {"sources": draw.randint(1, len(sources))} if REGISTRY[method].has_sources else {}
    return study_for(
        SCHEMA,
        id=f"study-{number}",
        label={"name": "ill", "positive": True},
        method=method,
        epsilon=draw.choice((0.25, 0.5, 0.75)),
        sources=sources,
        targets=targets,
        groups=1,
        quorum=quorum | {"deadline": f"{plan.deadline:.0f}s"},
    )


async def ask_coordinator(world: World, role: str, method: str, path: str, body: Any = None, kind: str = "json") -> Any:
    """A person's request to whichever process of the coordinator answers; None where it was refused or lost."""
    server = world.listening()
    if server is None:
        return None
    with suppress(Gone):
        return await server.process.do(ask(server.app, world.tokens[role], method, path, body, kind))
    return None


async def lead_study(world: World, study: Study) -> None:
    """Hand a study in, start it, and perhaps cancel it."""
    world.judge.expect(study)
    await world.sleep(world.draw.uniform(0.0, world.plan.spread))
    world.tell(
        f"lead: {study.id} ({study.method.name}) with {', '.join((*study.sources, *study.targets))}"
        f" at epsilon {study.epsilon.source or study.epsilon.target:g}"
    )
    path, there = f"/v1/studies/{study.id}", False
    for _ in range(TRIES):
        if await ask_coordinator(world, "lead", "POST", "/v1/studies", study.canonical(), "yaml") is not None:
            there = True
            started = await ask_coordinator(world, "lead", "POST", f"{path}/start")
            if started is not None:
                break
        await world.sleep(world.draw.uniform(5.0, 30.0))
    else:
        world.tell(f"lead: gives {study.id} up")
        if not there:
            world.judge.expect_no_more(study)
            return
        while await ask_coordinator(world, "lead", "POST", f"{path}/cancel", {"reason": "it cannot start"}) is None:
            await world.sleep(30.0)
        return
    if Kind.CANCEL in world.plan.kinds and world.draw.random() < 0.5:
        await world.sleep(world.draw.expovariate(1 / 30))
        world.tell(f"lead: cancels {study.id}")
        await ask_coordinator(world, "lead", "POST", f"/v1/studies/{study.id}/cancel", {"reason": "enough"})


# -- stewards and operators -------------------------------------------------------------------------------------------
async def act(world: World, running: RunningSite, what: str, does: Callable[[], T]) -> T | None:
    """Do something in a site's process; what goes wrong is told, and tried again another time."""
    if what:
        world.tell(what)

    def trying() -> T | None:
        try:
            return does()
        except CrosswardError as error:
            world.tell(f"{running.process.name}: {type(error).__name__}: {error.cause}")
            return None

    with suppress(Gone):
        return await running.process.do(blocking(trying))
    return None


def decide(world: World, running: RunningSite) -> None:
    """Answer what a site asks its steward."""
    site, calm = running.site, world.calm
    for question in approvals.waiting(site):
        if question.state == "cancelled":
            approvals.answer(site, question.task, approve=False)
            continue
        hopeless = any(words in question.cause.lower() for words in HOPELESS)
        refuses = Kind.REFUSAL in world.plan.kinds and not calm and world.draw.random() < 0.3
        approve = not hopeless and (not refuses or question.epsilon_charged > 0.0)
        dataset = world.draw.choice(question.datasets) if len(question.datasets) > 1 else None
        try:
            approvals.answer(site, question.task, approve=approve, dataset=dataset)
        except InvalidSetting as error:  # there are no data now
            world.tell(f"{running.process.name}: {error.cause}")
        running.runner.wake()


def reconcile_ledger(running: RunningSite) -> str:
    """Compare a site's ledger with the mirror, and go on; or say that its key counts no more, or that they part."""
    try:
        reconcile(running.site, running.runner.coordinator())
    except KeyRevoked:
        return "revoked"
    except (ChainBroken, LedgerRefused) as error:
        running.process.world.tell(f"{running.process.name}: {error.cause}")
        return "parted"
    running.runner.renew()
    return "agreed"


def rotate_key(running: RunningSite) -> None:
    """Change a site's key."""
    rotate(running.site, Link())
    running.runner.renew()


async def enrol_anew(world: World, hospital: Hospital) -> None:
    """A site that has lost its folder joins as if it were new; what it has forgotten, it then finds in the mirror."""
    if hospital.lost and world.judge.has_joined(hospital):
        hospital.lost = False
        return
    world.tell(f"operator: {hospital.party} has lost its key")
    await ask_coordinator(world, "operator", "DELETE", f"/v1/parties/{hospital.party}")
    await invite_again(world, hospital)
    hospital.lost = not world.judge.has_joined(hospital)


async def invite_again(world: World, hospital: Hospital) -> None:
    """A party that was revoked joins once more, with the ledger it has."""
    body = {"party": hospital.party, "role": hospital.role}
    invited = await ask_coordinator(world, "operator", "POST", "/v1/parties/invites", body)
    running = hospital.running
    if invited is None or running is None:
        return

    def joins() -> None:
        join(running.site, URL, invited["code"], (hospital.role,))
        running.runner.renew()

    await act(world, running, f"{hospital.party}: joins again", joins)


def is_unknown(running: RunningSite) -> bool:
    """Whether the coordinator knows none of the site's keys any more: it was put back to before."""
    return "is enrolled here" in running.runner.trouble or "was revoked" in running.runner.trouble
