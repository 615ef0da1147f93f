"""Does a mechanism keep its promise? Engines that look for a counter-example; they know nothing of learners.

exact        objective perturbation: the privacy loss from the densities, maximised over weights and neighbours
quadrature   the same with Gaussian noise: the hockey-stick divergence on a grid
distance     deterministic answers with noise on top: the largest distance over the noise
finite       the best of a random number of tries, outcome by outcome
law          the noise that was drawn against the law that the proofs assume
sampling     anything that runs: a lower confidence bound on epsilon from fresh runs
report       what was found

A loss above the claim refutes a mechanism for certain (by sampling: but for one time in 10^8). No loss above the claim
proves nothing by itself, which is why the catalogue in `crossward_lab.audit` plants faults that must be found.
"""

from crossward_lab.audit.measures.report import AuditReport, MechanismVerdict, MutantVerdict, PeerVerdict

__all__ = ["AuditReport", "MechanismVerdict", "MutantVerdict", "PeerVerdict"]
