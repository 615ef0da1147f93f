"""Run the catalogue: each audit on its own, in as many processes as are given."""

from __future__ import annotations

from collections.abc import Callable, Collection

from threadpoolctl import threadpool_limits

from crossward.learning.processes import spread
from crossward_lab.audit.mechanisms import MECHANISMS
from crossward_lab.audit.mutants import MUTANTS
from crossward_lab.audit.peers import PEERS
from crossward_lab.audit.report import Audit, AuditReport, Effort, MechanismVerdict, MutantVerdict, PeerVerdict

Progress = Callable[[str, int, int], None]

CATALOGUE: dict[str, Audit] = MECHANISMS | MUTANTS | PEERS


def audit_one(name: str, full: bool = False, seed: int | None = None) -> MechanismVerdict:
    """One audit of the catalogue, by name. The matrices are tiny: threads inside numpy would only wait."""
    with threadpool_limits(1):
        return CATALOGUE[name](name, Effort.of(name, full, seed))


def run(
    *,
    full: bool = False,
    seed: int | None = None,
    progress: Progress | None = None,
    workers: int = 1,
    only: Collection[str] | None = None,
) -> AuditReport:
    """Every mechanism, every mutant, every peer, or `only` those named.

    `progress` hears a name, how many are done and how many there are: before the first, and after each. A full audit
    looks harder: larger n, longer searches, twelve times the runs.
    """
    names = [name for name in CATALOGUE if only is None or name in only]
    found: dict[str, MechanismVerdict] = {}
    if progress is not None and names:
        progress(names[0], 0, len(names))  # of a full audit even the first takes a while
    with spread(audit_one, [(name, full, seed) for name in names], workers) as verdicts:
        for verdict in verdicts:
            found[verdict.name] = verdict
            if progress is not None:
                progress(verdict.name, len(found), len(names))
    peers = (found[name] for name in PEERS if name in found)
    return AuditReport(
        tuple(found[name] for name in MECHANISMS if name in found),
        tuple(MutantVerdict.of(found[name]) for name in MUTANTS if name in found),
        tuple(PeerVerdict(p.name, p.claimed_epsilon, p.largest_loss, p.method, p.detail) for p in peers),
    )
