"""Formulas of public libraries, for information: the same audit, somebody else's mechanism.

The formulas are those of the libraries' documentation and public source, written down anew. No code of theirs runs
here, so this says something about a formula as we read it, not about an installed version.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from crossward.learning.losses import LOGISTIC
from crossward_lab.audit.densities import Law, Scenario
from crossward_lab.audit.objective import Subject, exact, of_norm
from crossward_lab.audit.report import Audit, Effort, MechanismVerdict

SOURCE = "the formula as its public source and documentation have it; the library was not run"


def diffprivlib(n: int, features: int, *, norm: float, epsilon: float, intercept: bool) -> Subject:
    """Logistic regression with C = 1: 1/n sum_i loss + b.w/n + (alpha/2)|w|^2 + (Delta/2)|w|^2, alpha = 1/n.

    eps' = eps - 2 log(1 + c R / alpha), noise of density exp(-eps' ||b|| / (2R)); if eps' <= 0, Delta =
    c R / (exp(eps/4) - 1) - alpha and eps' = eps/2. With an intercept R grows to sqrt(R^2 + 1), and alpha spares it.
    """
    alpha = 1 / n
    reach = math.hypot(norm, 1.0) if intercept else norm
    bend = LOGISTIC.curvature * reach
    left, delta = epsilon - 2 * math.log1p(bend / alpha), 0.0
    if left <= 0:
        left, delta = epsilon / 2, bend / math.expm1(epsilon / 4) - alpha
    ridge = np.full(features + intercept, n * (alpha + delta))
    if intercept:
        ridge[-1] = n * delta
    law = Law(LOGISTIC, left / (2 * reach), ridge, np.zeros(len(ridge)))
    scenario = Scenario((law,), of_norm(norm, intercept), n, (tuple(range(features)),), norm)
    return Subject(scenario, epsilon)


def _with_source(audit: Audit) -> Audit:
    def tell(name: str, effort: Effort) -> MechanismVerdict:
        found = audit(name, effort)
        return replace(found, detail=f"{found.detail}; {SOURCE}")

    return tell


PEERS: dict[str, Audit] = {
    "diffprivlib 0.6.6, data_norm=100": _with_source(
        exact(lambda n, f: diffprivlib(n, f, norm=100.0, epsilon=1.0, intercept=False), (3, 2))
    ),
    "diffprivlib 0.6.6, data_norm=1, default intercept": _with_source(
        exact(lambda n, f: diffprivlib(n, f, norm=1.0, epsilon=2.0, intercept=True), (3, 2))
    ),
}
