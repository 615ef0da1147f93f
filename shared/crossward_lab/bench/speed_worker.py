"""One process that fits on request: a line of JSON in, a line of JSON out.

It is run by file, by our interpreter and by that of the peers' environment, where Crossward is not installed: so it
imports nothing but the library it is asked for. Requests: {"load": folder} takes other records, {"fit": method, ...}
times a fit, {} times reading the records once, and {"examine": method, ...} looks at memory and at the gradient a
method stopped at, untimed.
"""

from __future__ import annotations

import json
import os
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def crossward(features: int, lam: float, epsilon: float, groups: int) -> Any:
    """PLR, or PLR-FS on K neighbouring groups of columns at importance 1/K."""
    from crossward.learning.plr import PLR, PLRFS, groups_of
    from crossward.learning.records import Ball

    if groups == 1:
        return PLR(Ball(radius=1.0), lam=lam, epsilon=epsilon)
    edges = [round(k * features / groups) for k in range(groups + 1)]
    spans = [tuple(range(*edges[k : k + 2])) for k in range(groups)]
    balls = [Ball(radius=(len(span) / features) ** 0.5, q=1 / groups, columns=span) for span in spans]
    return PLRFS(groups_of(balls, lam), epsilon)


def scikit_learn(n: int, lam: float, solver: str) -> Any:
    """The non-private minimiser of sum_i log(1 + exp(-y_i w.x_i)) + n lam/2 |w|^2, at scikit-learn's own tolerance."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1 / (n * lam), fit_intercept=False, solver=solver)


def diffprivlib(n: int, lam: float, epsilon: float) -> Any:
    """The private minimiser of the same sum with its own noise; its C is 1/(n lam) as well."""
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=epsilon, data_norm=1.0, C=1 / (n * lam), fit_intercept=False)


def learner_of(method: str, n: int, features: int, lam: float, epsilon: float, groups: int) -> Any:
    """What to call `fit(X, y)` on, by name."""
    if method == "crossward":
        return crossward(features, lam, epsilon, groups)
    if method == "diffprivlib":
        return diffprivlib(n, lam, epsilon)
    return scikit_learn(n, lam, method)


def examine(method: str, X: Matrix, y: Matrix, lam: float, epsilon: float, groups: int) -> dict[str, Any]:
    """Peak memory of a fit as a share of X, and the gradient of its own objective (as a sum) where it stopped."""
    learner = learner_of(method, len(X), X.shape[1], lam, epsilon, groups)
    learner.fit(X, y)  # what a library loads on first use is not the fit's
    tracemalloc.start()
    try:
        model = learner.fit(X, y)
        found: dict[str, Any] = {"memory": tracemalloc.get_traced_memory()[1] / X.nbytes}
    finally:
        tracemalloc.stop()
    if method == "crossward":
        return found | _watch_crossward(lambda: learner.fit(X, y))
    if method == "diffprivlib":
        return found | _watch_diffprivlib(lambda: learner.fit(X, y))
    w = model.coef_[0]
    slopes = -y / (1 + np.exp(y * (X @ w)))
    return found | {"gradient": float(np.linalg.norm(slopes @ X + len(y) * lam * w))}


def _watch_crossward(run: Callable[[], object]) -> dict[str, Any]:
    """The gradients where our K solves stopped, computed anew and plainly; the noise is known inside a fit only."""
    from crossward.learning import plr

    module: Any = plr
    real, gradients, passes = module.minimise, [], []

    def watching(records: Any, loss: Any, linear: Matrix, ridge: float, tolerance: float) -> Any:
        solution = real(records, loss, linear, ridge, tolerance)
        Z = records.dense()
        gradients.append(float(np.linalg.norm(loss.slope(Z @ solution.w) @ Z + linear + ridge * solution.w)))
        passes.append(solution.passes)
        return solution

    module.minimise = watching
    try:
        run()
    finally:
        module.minimise = real
    return {"gradient": max(gradients), "passes": max(passes)}


def _watch_diffprivlib(run: Callable[[], object]) -> dict[str, Any]:
    """The gradient its optimiser reports: of its noisy objective, a mean over n records."""
    from diffprivlib.models import logistic_regression

    real, gradients = logistic_regression.optimize.fmin_l_bfgs_b, []

    def watching(function: Any, start: Matrix, *rest: Any, **options: Any) -> Any:
        answer = real(function, start, *rest, **options)
        gradients.append(float(np.linalg.norm(answer[2]["grad"]) * len(options["args"][1])))
        return answer

    logistic_regression.optimize.fmin_l_bfgs_b = watching
    try:
        run()
    finally:
        logistic_regression.optimize.fmin_l_bfgs_b = real
    return {"gradient": gradients[0]}


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr  # a library that prints must not answer for us
    warnings.simplefilter("ignore")
    data: tuple[Matrix, Matrix] = np.empty((0, 0)), np.empty(0)
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            folder = Path(request.pop("load"))
            data = np.load(folder / "X.npy"), np.load(folder / "y.npy")
        print(json.dumps(answer(request, *data)), file=answers, flush=True)


def answer(request: dict[str, Any], X: Matrix, y: Matrix) -> dict[str, Any]:
    """What a request asks for, of the records."""
    if "examine" in request:
        return examine(request.pop("examine"), X, y, **request)
    if "fit" in request:
        learner = learner_of(request.pop("fit"), len(X), X.shape[1], **request)
        learner.fit(X, y)  # caches and threads are then as this method leaves them, not as another did
        return {"seconds": _seconds(lambda: learner.fit(X, y))}
    w = np.ones(X.shape[1])
    return {"seconds": min(_seconds(lambda: X @ w) for _ in range(5))}


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
