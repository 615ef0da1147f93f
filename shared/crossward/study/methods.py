"""The methods a study can name, each with its public hyper-parameters.

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

(U) and (W) of the papers are `groups: {kind: uniform}` and `{kind: importance}`. lambda is 0.01 for a model that
stands alone, and 0.05 for one pulled towards sources: it is held to something better than zero.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from crossward.values import ADDED, AtLeastOne, Lambda, Name, NotNegative, Positive, Section, Share, Unit, Yes

LAMBDA_ALONE = 0.01
LAMBDA_PULLED = 0.05

Mix = Literal["records", "uniform"]
CombinerName = Literal["C-hl", "C-wmv", "C-mv"]


class _Lossy(Section):
    """The loss: logistic, or Huber's smoothed hinge of half-width `huber_width`."""

    loss: Literal["logistic", "huber"] = "logistic"
    huber_width: Positive = 0.5


class _Sgd(_Lossy):
    """Settings of DPPSGD; `projection` is R, by default weight/lambda."""

    weight: Positive = 1.0
    passes: AtLeastOne = 10
    batch: AtLeastOne = 50
    projection: Positive | None = None


class _Amp(_Lossy):
    """Settings of AMP. `delta` has no default: it must be chosen well below one over the number of records."""

    delta: Share
    noise_share: Share = 0.9
    output_share: Share = 0.01


class _Perturbed(_Lossy):
    """Settings of objective perturbation. `jacobian: tight` pays for the change of variables once, not twice."""

    jacobian: Annotated[Literal["tight"] | None, ADDED] = None


class PlrLearner(_Perturbed):
    """A source's PLR."""

    name: Literal["plr"] = "plr"
    lam: Lambda = LAMBDA_ALONE


class DppsgdLearner(_Sgd):
    """A source's DPPSGD."""

    name: Literal["dppsgd"]
    lam: Positive = LAMBDA_ALONE


class AmpLearner(_Amp):
    """A source's AMP."""

    name: Literal["amp"]
    lam: Positive = 1e-3


def _by_name(value: Any) -> Any:
    """`direct` is short for `{name: direct}`."""
    return {"name": value} if isinstance(value, str) else value


LEARNERS: dict[str, type[Section]] = {"plr": PlrLearner, "dppsgd": DppsgdLearner, "amp": AmpLearner}

Learner = Annotated[PlrLearner | DppsgdLearner | AmpLearner, Field(discriminator="name"), BeforeValidator(_by_name)]


class _Method(Section):
    """What the rules ask of any method: who trains, who pays, and whether features are grouped."""

    has_sources: ClassVar[bool] = False
    target_pays: ClassVar[bool] = True
    grouped: ClassVar[bool] = False
    stacked: ClassVar[bool] = False


class Direct(_Method, _Perturbed):
    """PLR on the target alone."""

    name: Literal["direct"]
    lam_target: Lambda = LAMBDA_ALONE


class Dppsgd(_Method, _Sgd):
    """DPPSGD on the target alone."""

    name: Literal["dppsgd"]
    lam_target: Positive = LAMBDA_ALONE


class Amp(_Method, _Amp):
    """AMP on the target alone."""

    name: Literal["amp"]
    lam_target: Positive = 1e-3


class SimComb(_Method, _Perturbed):
    """SimComb = PPHTL: one model at the source, one at the target pulled towards it."""

    has_sources: ClassVar[bool] = True

    name: Literal["simcomb"]
    lam_source: Lambda = LAMBDA_ALONE
    lam_target: Lambda = LAMBDA_PULLED
    eta: Unit = 0.0
    mix: Mix = "records"


class _Stacked(_Method, _Perturbed):
    """Level-0 models and what combines them. `prior` is the strength of the weighted vote that level-1 starts from."""

    stacked: ClassVar[bool] = True

    combiner: CombinerName = "C-hl"
    lam_level1: Positive = 0.1
    level1_intercept: Yes = True
    scores: Literal["margin", "sigmoid"] = "margin"
    gain: Positive = 2.0
    prior: NotNegative = 4.0


class PstS(_Stacked):
    """PST-S: `parts` level-0 models on disjoint sets of cells."""

    name: Literal["pst-s"]
    lam_target: Lambda = LAMBDA_ALONE
    parts: AtLeastOne = 3


class PstF(_Stacked):
    """PST-F (U)/(W): one level-0 model per group of features."""

    grouped: ClassVar[bool] = True

    name: Literal["pst-f"]
    lam_target: Lambda = LAMBDA_ALONE


class PstH(_Stacked):
    """PST-H (U)/(W) = PPTL-FS (R)/(W): PST-F pulled towards the sources; `mix: scores` adds their scores as well."""

    has_sources: ClassVar[bool] = True
    grouped: ClassVar[bool] = True

    name: Literal["pst-h"]
    lam_source: Lambda = LAMBDA_ALONE
    lam_target: Lambda = LAMBDA_PULLED
    eta: Unit = 0.0
    mix: Literal["records", "uniform", "scores"] = "records"


class _Borrowed(_Method):
    """Methods whose target pays nothing: it uses what the sources released."""

    has_sources: ClassVar[bool] = True
    target_pays: ClassVar[bool] = False

    learner: Learner = PlrLearner()


class Sourced(_Borrowed):
    """SourceD: the sources' model as it is (of several: their mixture)."""

    name: Literal["sourced"]
    mix: Mix = "records"


class Average(_Borrowed):
    """The mean of the sources' weights."""

    name: Literal["average"]
    mix: Mix = "uniform"


class FeatureMethod(_Borrowed):
    """The feature method: the coordinator weighs the sources on a public set that it holds by this name."""

    name: Literal["feature"]
    public_set: Name
    lam_aggregate: Positive = 1e-2


class Boosted(_Borrowed):
    """Gradient boosting at the target over the sources' scores. It is not private, so it never leaves the target."""

    name: Literal["boosted"]
    iterations: AtLeastOne = 100
    depth: AtLeastOne = 3
    rate: Positive = 0.1


METHODS: dict[str, type[_Method]] = {
    "direct": Direct,
    "sourced": Sourced,
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

StackedMethod = PstS | PstF | PstH
BorrowedMethod = Sourced | Average | FeatureMethod | Boosted

Method = Annotated[
    Direct | Sourced | SimComb | PstS | PstF | PstH | Dppsgd | Amp | Average | FeatureMethod | Boosted,
    Field(discriminator="name"),
    BeforeValidator(_by_name),
]
