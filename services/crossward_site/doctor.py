"""Is this site well? Looks at everything between its records and its coordinator, changes nothing, tells nobody.

The coordinator hears two signed questions about this party itself; the records' columns are named, never their values.
"""

from __future__ import annotations

from contextlib import ExitStack, closing

from crossward.client.http import NEVER
from crossward.errors import NotReady
from crossward.methods import METHODS
from crossward.privacy.budget import Budget
from crossward.protocol.states import PartyState
from crossward_service.db.engine import read
from crossward_service.ops import examination, peer
from crossward_service.ops.findings import Findings, Notes
from crossward_service.ops.peer import Peer
from crossward_site import facts
from crossward_site.coordinator import Coordinator
from crossward_site.data import seating
from crossward_site.data.connector import protections
from crossward_site.data.service import Dataset, Vault, open_copy
from crossward_site.identity import secret
from crossward_site.identity.service import Identity
from crossward_site.migrations import MIGRATIONS
from crossward_site.policy.service import Decision, Policy
from crossward_site.settings import SiteSettings
from crossward_site.site import Site

COMPARE = "Compare the two ledgers (crossward ledger verify), and see docs/operations.md before anything is reconciled."


def examine(settings: SiteSettings, coordinator: str | None = None) -> Findings:
    """Examine a site, running or not. `coordinator` is where to look for one before the site has joined."""
    findings = Findings()
    examination.examine_surroundings(findings, settings, settings.service)
    with ExitStack() as stack:
        site = _site(findings, settings, stack)
        identity = _identity(findings, settings, site)
        url = coordinator if identity is None else identity.coordinator_url
        _coordinator(findings, settings, site, identity, url)
        if site is not None:
            _data(findings, settings, site)
            _policy(findings, site)
    return findings


def _site(findings: Findings, settings: SiteSettings, stack: ExitStack) -> Site | None:
    engine = examination.examine_database(findings, settings, MIGRATIONS, stack)
    if engine is None:
        return None
    site = None
    with findings.looking_at("site secret") as note:
        site = Site.look(engine, settings.data_dir)
        note.ok("It is the one that the database knows.")
    if site is None:
        return None
    with findings.looking_at("ledger") as note, read(site.engine) as connection:
        head = site.ledger.verify(connection).head
        if cause := facts.STOPPED.get(connection):
            note.fault(f"The site has stopped: {cause}", COMPARE)
        else:
            note.ok(f"{head.sequence} lines, each follows from the one before and adds up.")
    return site


def _identity(findings: Findings, settings: SiteSettings, site: Site | None) -> Identity | None:
    identity = None
    with findings.looking_at("key") as note:
        if site is None:
            note.unknown("the site's database cannot be used")
            return None
        try:
            identity = Identity.load(site)
        except NotReady as error:
            note.warning(error.cause, error.fix)
            return None
        if identity.role not in settings.roles:
            note.fault(
                f"{identity.party} joined as a {identity.role}, and this is a {settings.service}.",
                "Run the right service.",
            )
        else:
            note.ok(f"Key {identity.key_id} of {identity.party}; nobody else can read it.")
    return identity


def _coordinator(
    findings: Findings, settings: SiteSettings, site: Site | None, identity: Identity | None, url: str | None
) -> None:
    if url is None:
        with findings.looking_at("address") as note:
            note.unknown("no coordinator is known", "Join one, or name one with --coordinator.")
        return
    answers = peer.examine(findings, url, settings.tls_ca, insecure=settings.insecure)
    if site is None or identity is None:
        return
    if not _is_the_one(findings, answers, identity):
        for check in ("enrolment", "mirror"):
            with findings.looking_at(check) as note:
                note.unknown("the coordinator was not reached")
        return
    with closing(Coordinator(identity, link=settings.link, retry=NEVER)) as coordinator:
        with findings.looking_at("enrolment") as note:
            _enrolled(note, coordinator, identity)
        with findings.looking_at("mirror") as note:
            _agrees(note, coordinator, site)


def _is_the_one(findings: Findings, answers: Peer | None, identity: Identity) -> bool:
    """Whether the coordinator there is the one this site joined."""
    with findings.looking_at("coordinator") as note:
        if answers is None:
            note.unknown("it gave no answer")
        elif answers.public_key != identity.coordinator_key:
            note.fault(
                f"Another coordinator answers at {identity.coordinator_url}: its key is not the one this site joined.",
                "Ask its operator by telephone. Do nothing else until it is explained.",
            )
        else:
            note.ok("It is the one this site joined.")
            return True
    return False


def _enrolled(note: Notes, coordinator: Coordinator, identity: Identity) -> None:
    standing = coordinator.standing(identity.party)
    if standing is None:
        note.fault(f"The coordinator knows no {identity.party}.", "Its operator invites this site again.")
    elif standing.state is not PartyState.ACTIVE:
        fix = COMPARE if standing.state is PartyState.STOPPED else "Its operator invites this site again."
        note.fault(f"The coordinator has {identity.party} as {standing.state}: {standing.cause}", fix)
    elif standing.role is not identity.role:
        note.fault(f"The coordinator has {identity.party} as a {standing.role}.", "Ask its operator.")
    else:
        note.ok(f"{identity.party} is active there as a {identity.role}, with this key.")


def _agrees(note: Notes, coordinator: Coordinator, site: Site) -> None:
    mirror = coordinator.mirror_head()  # asked first: a site at work may go on meanwhile, and is then ahead
    with read(site.engine) as connection:
        own, one_chain = site.ledger.head(connection), site.ledger.contains(connection, mirror)
    if mirror.sequence > own.sequence:
        note.fault(
            f"The mirror has {mirror.sequence} lines and this ledger {own.sequence}: this database is an old backup.",
            "Restore a later backup, or see docs/operations.md on how to catch up from the mirror.",
        )
    elif not one_chain:
        note.fault(f"Line {mirror.sequence} of the mirror is not this ledger's.", COMPARE)
    elif mirror != own:
        waiting = own.sequence - mirror.sequence
        note.ok(f"One chain; the mirror will hear the last {waiting} lines before anything more is spent.")
    else:
        note.ok(f"One chain of {own.sequence} lines on both sides.")


def _data(findings: Findings, settings: SiteSettings, site: Site) -> None:
    vault = Vault(site)
    known = vault.datasets()
    with findings.looking_at("seats") as note:
        if (problem := seating.problem(site)) is not None:
            note.fault(problem.cause, problem.fix)
        else:
            note.ok("The table of seats is the one that the ledger names." if known else "Nobody has a seat yet.")
    with findings.looking_at("connectors") as note:
        found = protections([site.home / secret.FILE, *site.home.glob("*.key")], settings.data_limits.limits)
        if found.gaps:
            note.warning(str(found), "Run the site as an unprivileged user, on a kernel with Landlock.")
        else:
            note.ok(str(found))
    if not known:
        with findings.looking_at("data") as note:
            note.warning("No dataset is open.", "Run crossward site data check, then data open.")
    for dataset in known:
        with findings.looking_at(f"data {dataset.name}") as note:
            copies = [copy for copy in vault.copies() if copy.name == dataset.name and copy.version != dataset.version]
            rows = [_readable_rows(site, copy) for copy in (*copies, dataset)]  # one may be owed an earlier release
            note.ok(f"Version {dataset.version}: all {rows[-1]:,} rows of the sealed copy can be read.")


def _readable_rows(site: Site, copy: Dataset) -> int:
    """The rows of a sealed copy, read to its end."""
    return sum(len(batch.cells) for batch in open_copy(site, copy).batches(()))


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (" and more" if len(names) > 10 else "")


def _policy(findings: Findings, site: Site) -> None:
    with findings.looking_at("policy") as note:
        vault = Vault(site)
        with read(site.engine) as connection:
            policy = Policy.load(connection)
        rows = [dataset.report.rows for dataset in vault.datasets()]
        with read(site.engine) as connection:
            opened = site.ledger.opened(connection)
        budgets = [] if opened is None else [opened.budget]
        if doubts := _doubts(policy, rows, budgets):
            note.warning(" ".join(doubts), "crossward site policy FILE sets it anew.")
        else:
            decides = "approves what fits it" if policy.decide is Decision.APPROVE else "asks the steward"
            note.ok(f"Within its limits it {decides}.")


def _doubts(policy: Policy, rows: list[int], budgets: list[Budget]) -> list[str]:
    doubts = []
    if policy.decide is Decision.APPROVE and policy.epsilon_per_study is None:
        doubts.append("It approves by itself and no limit per study is set: one study may take all.")
    if None not in (policy.epsilon_per_study, policy.epsilon_lifetime) and (
        (policy.epsilon_per_study or 0) > (policy.epsilon_lifetime or 0)
    ):
        doubts.append("A study may take more than all studies together.")
    lifetime = None if policy.epsilon_lifetime is None else Budget.of(policy.epsilon_lifetime)
    if budgets and lifetime is not None and lifetime.nano_epsilon > max(budget.nano_epsilon for budget in budgets):
        doubts.append("The lifetime limit is above the budget of each person, and so limits nothing.")
    if rows and policy.minimum_rows > max(rows):
        doubts.append("No dataset has as many rows as it demands: everything is refused.")
    for name in ("methods", "studies", "leads"):
        if getattr(policy, name) == ():
            doubts.append(f"The list of {name} is empty: everything is refused.")
    if unknown := sorted(set(policy.methods or ()) - METHODS.keys()):
        doubts.append(f"There is no method {_listed(unknown)}.")
    return doubts
