"""The methods a study can name, one module each. To add one: write its module, and a line here.

    name      source trains            target trains                          who pays
    direct    -                        PLR                                    target
    dppsgd    -                        DPPSGD                                 target
    amp       -                        AMP, (eps, delta)                      target
    pst-s     -                        PLRs on sets of cells, a combiner      target
    pst-f     -                        PLR-FS, a combiner                     target
    simcomb   PLR                      PLR pulled to the sources              both
    pst-h     PLR-FS                   PLR-FS pulled to the sources, combiner both
    sourced   `learner`                nothing: the sources' model as it is   source
    average   `learner`                nothing: the mean of the sources       source
    feature   `learner`                nothing: a public set weighs them      source
    boosted   `learner`                boosting over the sources' scores      source; the ensemble never leaves

base.py        what a method is; works.py: kinds of work; forms.py: how models are sent
settings.py    settings that several share; one_model.py, stacked.py, borrowing.py: families of methods
"""

from __future__ import annotations

from typing import Any

from crossward.methods.amp import Amp
from crossward.methods.average import Average
from crossward.methods.base import Method
from crossward.methods.boosted import Boosted
from crossward.methods.direct import Direct
from crossward.methods.dppsgd import Dppsgd
from crossward.methods.feature_method import FeatureMethod
from crossward.methods.pst_f import PstF
from crossward.methods.pst_h import PstH
from crossward.methods.pst_s import PstS
from crossward.methods.simcomb import SimComb
from crossward.methods.sourced import SourceD
from crossward.values import by_name

METHODS: dict[str, type[Method]] = {
    "direct": Direct,
    "sourced": SourceD,
    "simcomb": SimComb,
    "pst-s": PstS,
    "pst-f": PstF,
    "pst-h": PstH,
    "dppsgd": Dppsgd,
    "amp": Amp,
    "average": Average,
    "feature": FeatureMethod,
    "boosted": Boosted,
}
"""Every method, by the name a study calls it."""


def read_method(value: Any) -> Method:
    """A method from what a study says: its name, or a mapping of its name and settings."""
    return by_name(value, METHODS)


__all__ = ["METHODS", "Method", "read_method"]
