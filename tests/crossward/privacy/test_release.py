"""A release is a value: it never changes, and one description has one byte string."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossward.errors import InvalidEpsilon, InvalidSetting
from crossward.privacy import mechanisms
from crossward.privacy.budget import Cost
from crossward.privacy.mechanisms import (
    MECHANISMS,
    ApproximateMinima,
    BallDescription,
    ExponentialChoice,
    GroupDescription,
    NoisyAuc,
    NoisyDescent,
    ObjectivePerturbation,
    RandomStopping,
)
from crossward.privacy.release import NEIGHBOURS, Composing, Composition, Release, parallel, sequential
from crossward.protocol.canonical import canonical, read_canonical
from releases import changes, own_fields, releases, releases_of
from toys import ToyRelease


def spelled(release: Release) -> bytes:
    """The one byte string of a description."""
    return canonical(release.describe())


PROOFS = Path(__file__).parents[3] / "docs" / "proofs"

BALL = BallDescription(q=0.6, radius=2.0, columns=(0, 2), scale=(1.0, 0.5), intercept=0.4, offset=-1.5)
GROUP = GroupDescription(ball=BALL, dimension=3, lam=0.1, pull="0123456789abcdef", extra=0.02, grid=0.125)
ONE_BALL = {"n": 50, "ball": BALL, "dimension": 3, "loss": "logistic", "lam": 0.1, "grid": 0.125}

EXAMPLES: dict[str, Release] = {
    example.name: example
    for example in (
        ObjectivePerturbation(
            epsilon=1.0,
            n=50,
            loss="logistic",
            tolerance=1e-4,
            jacobian="tight",
            groups=(GROUP, replace(GROUP, grid=0.25)),
            epsilon_objective=0.99,
            epsilon_output=0.01,
            epsilon_prime=0.9,
        ),
        ApproximateMinima(
            epsilon=1.0, delta=1e-6, tolerance=1e-4, ridge=3.0, sigma_objective=5.0, sigma_output=0.1, **ONE_BALL
        ),
        NoisyDescent(
            epsilon=1.0, weight=1.0, passes=3, batch=5, batches=10, projection=10.0, sensitivity=0.4, **ONE_BALL
        ),
        NoisyAuc(epsilon=1.0, n=50, pairs_share=0.8),
        ExponentialChoice(epsilon=1.0, n=50, candidates=4),
        RandomStopping(epsilon=2.0, n=50, base_epsilon=1.0, eta=0.0, gamma=0.02, candidates=4),
    )
}
"""A release of each mechanism that says all it can."""

every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
every_example = pytest.mark.parametrize("release", EXAMPLES.values(), ids=EXAMPLES)

NOT_PLAIN = [{1}, {"a": 1}, np.arange(2), object(), 1j, [1, {2}], b"x", BallDescription]
NOT_FINITE = [math.nan, math.inf, [1.0, -math.inf]]


def of(epsilon: float, delta: float = 0.0, n: int = 0) -> ToyRelease:
    return ToyRelease(epsilon=epsilon, delta=delta, n=n)


def given_fields(release: Release) -> dict[str, object]:
    return {item.name: getattr(release, item.name) for item in fields(release)}


# -- one class per mechanism ------------------------------------------------------------------------------------------
def test_every_mechanism_has_a_class_a_name_a_proof_and_an_example():
    named = {kind for kind in vars(mechanisms).values() if isinstance(kind, type) and issubclass(kind, Release)}
    named = {kind for kind in named if kind.name} - {mechanisms.NothingPrivate}
    assert set(MECHANISMS.values()) == named
    assert set(MECHANISMS) == set(EXAMPLES)
    for name, mechanism in MECHANISMS.items():
        assert mechanism.name == name == EXAMPLES[name].mechanism
        assert type(EXAMPLES[name]) is mechanism
        assert (PROOFS / mechanism.proof).is_file()


def test_what_is_private_for_nobody_is_no_mechanism_that_a_reader_may_meet():
    assert mechanisms.NothingPrivate.name not in MECHANISMS
    assert not mechanisms.NothingPrivate().private


def test_what_is_private_for_nobody_cannot_claim_an_epsilon():
    with pytest.raises((InvalidSetting, InvalidEpsilon, TypeError)):
        _ = mechanisms.NothingPrivate(epsilon=1.0).cost


@every_example
def test_a_release_says_how_many_records_it_was_made_from(release):
    assert release.records == release.n == 50
    assert of(1.0).records is None


def test_a_release_says_the_grids_of_its_weights():
    grids = {"objective-perturbation": (0.125, 0.25), "amp": (0.125,), "dppsgd": (0.125,)}
    assert {name: release.grids for name, release in EXAMPLES.items() if release.grids} == grids
    twin = replace(EXAMPLES["objective-perturbation"], groups=(replace(GROUP, grid=None),))
    assert twin.grids == replace(EXAMPLES["amp"], grid=None).grids == ()


def test_a_composition_has_the_records_and_grids_of_its_parts():
    parts = [EXAMPLES["objective-perturbation"], replace(EXAMPLES["amp"], n=70), EXAMPLES["private-auc"]]
    assert parallel("p", *parts).records == 170
    assert sequential("s", *parts).records == 70
    assert parallel("p", *parts).grids == sequential("s", *parts).grids == (0.125, 0.25, 0.125)
    assert parallel("p", *parts, of(1.0)).records is None
    assert parallel("p", *parts).parts == tuple(parts)
    assert EXAMPLES["amp"].parts == ()


# -- a value ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("release", [*EXAMPLES.values(), parallel("p", *EXAMPLES.values())])
def test_a_release_cannot_be_changed(release):
    for name in [*given_fields(release), "mechanism", "name", "cost", "records", "grids", "parts"]:
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            setattr(release, name, 0)
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            delattr(release, name)
    with pytest.raises((AttributeError, TypeError)):
        release.note = "a new attribute"
    before = spelled(release)
    release.describe().clear()
    release.describe().get("parameters", {}).clear()
    assert spelled(release) == before


@pytest.mark.parametrize("description", [BALL, GROUP], ids=["ball", "group"])
def test_what_a_release_holds_cannot_be_changed(description):
    for item in fields(description):
        with pytest.raises(FrozenInstanceError):
            setattr(description, item.name, 0)
    with pytest.raises((AttributeError, TypeError)):
        description.note = "a new attribute"


@pytest.mark.parametrize("release", [*EXAMPLES.values(), of(1.0), parallel("p", of(1.0))])
def test_a_release_has_the_fields_of_its_class_and_no_others(release):
    told = given_fields(release)
    assert type(release)(**told) == release
    with pytest.raises(TypeError):
        type(release)(**told, note="a new field")
    with pytest.raises(TypeError):
        replace(release, note="a new field")
    with pytest.raises(TypeError):
        type(release)(*told.values())
    with pytest.raises(TypeError):
        type(release)(**{name: value for name, value in told.items() if name != "epsilon"})
    for old in ("settings", "parameters", "of", "non_private"):
        assert not hasattr(release, old)


def test_lists_that_were_given_may_change_and_the_release_does_not():
    groups = [GROUP]
    release = replace(EXAMPLES["objective-perturbation"], groups=groups)
    before = spelled(release)
    groups.append(GROUP)
    assert spelled(release) == before
    assert release.groups == (GROUP,)


def test_lists_inside_what_was_given_may_change_and_the_release_does_not():
    columns, scale = [0, 2], [1.0, 0.5]
    ball = replace(BALL, columns=columns, scale=scale)
    for release in (
        replace(EXAMPLES["amp"], ball=ball),
        replace(EXAMPLES["objective-perturbation"], groups=[replace(GROUP, ball=ball)]),
    ):
        before, key = spelled(release), hash(release)
        columns.append(3)
        scale[0] = 9.0
        assert (spelled(release), hash(release)) == (before, key)


def test_a_list_of_parts_may_change_and_the_composition_does_not():
    members = [of(1.0), of(1.0)]
    release = Composition(epsilon=1.0, method="p", how=Composing.PARALLEL, members=members)
    members.append(of(9.0))
    assert release.cost == Cost(10**9)
    assert hash(release) == hash(parallel("p", of(1.0), of(1.0)))


@pytest.mark.parametrize("release", [*EXAMPLES.values(), of(1.0)])
@settings(max_examples=10)
@given(seed=st.randoms(use_true_random=False))
def test_the_order_in_which_fields_are_given_does_not_matter(release, seed):
    names = list(given_fields(release))
    seed.shuffle(names)
    shuffled = type(release)(**{name: getattr(release, name) for name in names})
    assert shuffled == release
    assert spelled(shuffled) == spelled(release)


@settings(max_examples=60)
@given(releases())
def test_a_release_is_a_key_and_travels(release):
    for twin in (pickle.loads(pickle.dumps(release)), copy.deepcopy(release), replace(release)):
        assert twin == release
        assert type(twin) is type(release)
        assert hash(twin) == hash(release)
        assert spelled(twin) == spelled(release)
        assert twin.cost == release.cost
    assert {release: 1}[copy.deepcopy(release)] == 1


def test_releases_of_different_mechanisms_differ_even_where_their_numbers_agree():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Other(ToyRelease):
        pass

    assert Other(epsilon=1.0, n=5) != of(1.0, n=5)
    assert parallel("c", of(1.0)) != sequential("c", of(1.0))
    assert spelled(parallel("c", of(1.0))) != spelled(sequential("c", of(1.0)))


# -- its bytes --------------------------------------------------------------------------------------------------------
@settings(max_examples=60)
@given(releases())
def test_the_canonical_bytes_are_the_description(release):
    described = read_canonical(spelled(release), 10**6)
    assert described["mechanism"] == release.mechanism
    assert described["nano_epsilon"] == release.cost.nano_epsilon
    assert int(described["atto_delta"]) == release.cost.atto_delta
    assert described["neighbours"] == NEIGHBOURS
    assert b"\n" not in spelled(release)
    assert spelled(release) == canonical(described)


@every_mechanism
@settings(max_examples=10)
@given(data=st.data())
def test_the_description_of_a_mechanism_names_all_its_fields(mechanism, data):
    described = data.draw(releases_of(mechanism)).describe()
    assert list(described["parameters"]) == own_fields(mechanism)
    assert set(described) == {
        "mechanism",
        "nano_epsilon",
        "atto_delta",
        "neighbours",
        "seeded",
        "parameters",
    }
    assert described["mechanism"] == mechanism.name


def test_the_canonical_bytes_are_these():
    assert spelled(of(0.5, 1e-6, 3)) == (
        b'{"atto_delta":1000000000000,"mechanism":"toy","nano_epsilon":500000000,"neighbours":"replace-one-record",'
        b'"parameters":{"n":3},"seeded":false}'
    )


def test_the_canonical_bytes_of_what_a_release_holds_are_these():
    release = replace(EXAMPLES["objective-perturbation"], groups=(replace(GROUP, pull=None),))
    assert (
        b'"groups":[{"ball":{"columns":[0,2],"intercept":0.4,"offset":-1.5,"q":0.6,"radius":2,"scale":[1,0.5]},'
        b'"dimension":3,"extra":0.02,"grid":0.125,"lam":0.1,"pull":null}]'
    ) in spelled(release)


def test_the_canonical_bytes_of_a_composition_are_these():
    part = of(0.5, n=3)
    assert spelled(parallel("PST-F", part)) == (
        b'{"atto_delta":0,"composition":"parallel","mechanism":"PST-F","nano_epsilon":500000000,'
        b'"neighbours":"replace-one-record","parts":[%b],"seeded":false}' % spelled(part)
    )


def test_a_whole_epsilon_has_the_bytes_of_its_float():
    assert of(1) == of(1.0)
    assert spelled(of(1)) == spelled(of(1.0))
    assert spelled(of(1.0, 0)) == spelled(of(1.0))


def test_a_whole_number_has_the_bytes_of_its_float():
    told, whole = EXAMPLES["dppsgd"], replace(EXAMPLES["dppsgd"], projection=10, weight=1)
    assert whole == told
    assert spelled(whole) == spelled(told)
    inside = replace(told, ball=replace(BALL, radius=2, scale=(1, 0.5)))
    assert inside == told
    assert spelled(inside) == spelled(told)


def test_a_float_of_numpy_has_the_bytes_of_its_float():
    """Whoever tries np.logspace for lambda, or an epsilon out of an array, has such floats."""
    for told in EXAMPLES.values():
        own = {name: getattr(told, name) for name in own_fields(type(told))}
        floats = {name: np.float64(value) for name, value in own.items() if isinstance(value, float)}
        assert spelled(replace(told, **floats)) == spelled(told)
    ball = replace(BALL, q=np.float64(0.6), radius=np.float64(2.0), scale=tuple(np.array([1.0, 0.5])))
    assert spelled(replace(EXAMPLES["amp"], ball=ball)) == spelled(EXAMPLES["amp"])


@every_mechanism
@settings(max_examples=15)
@given(data=st.data())
def test_any_change_of_any_field_changes_the_bytes(mechanism, data):
    release = data.draw(releases_of(mechanism))
    others = list(changes(release, mechanism))
    assert len(others) >= len(fields(mechanism))
    told = {spelled(release), *(spelled(other) for other in others)}
    assert spelled(release) not in {spelled(other) for other in others}
    assert len(told) >= 1 + len(set(others))


def test_any_change_of_a_composition_changes_the_bytes():
    release = parallel("p", of(1.0, n=5), of(1.0, n=6))
    others = [
        parallel("q", *release.parts),
        parallel("p", *release.parts[:1]),
        parallel("p", *release.parts[::-1]),
        parallel("p", of(1.0, n=5), of(1.0, n=7)),
        parallel("p", of(1.0, n=5), of(1.5, n=6)),
        parallel("p", parallel("p", *release.parts)),
        sequential("p", *release.parts),
        release.with_seed_mark(True),
    ]
    assert len({spelled(release), *(spelled(other) for other in others)}) == 1 + len(others)


# -- plain and finite -------------------------------------------------------------------------------------------------
@every_example
@pytest.mark.parametrize("value", NOT_PLAIN)
def test_a_release_describes_itself_with_plain_values(release, value):
    for name in own_fields(type(release)):
        with pytest.raises(InvalidSetting, match="plain values"):
            replace(release, **{name: value})


@every_example
@pytest.mark.parametrize("value", NOT_FINITE)
def test_numbers_that_json_cannot_write_are_refused_when_made(release, value):
    for name in own_fields(type(release)):
        with pytest.raises(InvalidSetting, match=r"finite|is declared"):
            replace(release, **{name: value})


@pytest.mark.parametrize("value", NOT_PLAIN + NOT_FINITE)
def test_what_a_release_holds_is_plain_and_finite_too(value):
    grouped = EXAMPLES["objective-perturbation"]
    for name in (item.name for item in fields(GroupDescription)):
        with pytest.raises(InvalidSetting):
            replace(grouped, groups=(GROUP, replace(GROUP, **{name: value})))
    for name in (item.name for item in fields(BallDescription)):
        ball = replace(BALL, **{name: value})
        for release in (EXAMPLES["amp"], EXAMPLES["dppsgd"]):
            with pytest.raises(InvalidSetting):
                replace(release, ball=ball)
        with pytest.raises(InvalidSetting):
            replace(grouped, groups=(replace(GROUP, ball=ball),))


# -- cost -------------------------------------------------------------------------------------------------------------
def test_the_cost_of_one_mechanism():
    assert of(0.1, 1e-6).cost == Cost(100_000_000, 10**12)


def test_disjoint_records_pay_for_the_dearest_part():
    assert parallel("p", of(0.3), of(0.5, 1e-9), of(0.4, 1e-6)).cost == Cost(500_000_000, 10**12)
    assert parallel("p", of(0.3), of(0.5)).epsilon == 0.5


def test_the_same_records_pay_for_all_parts():
    assert sequential("s", *[of(0.1, 1e-9)] * 10).cost == Cost(10**9, 10**10)
    assert sequential("s", *[of(0.1)] * 10).epsilon == 1.0


def test_nested_compositions():
    inner = sequential("s", of(0.1), of(0.2))
    outer = parallel("p", inner, of(0.25))
    assert outer.cost == Cost(300_000_000)
    assert sequential("s", outer, of(0.1)).cost == Cost(400_000_000)
    assert parallel("p", sequential("s", outer, outer), inner).cost == Cost(600_000_000)


@settings(max_examples=60)
@given(releases())
def test_the_cost_is_never_below_the_epsilon_that_is_told(release):
    assert release.cost.nano_epsilon >= release.epsilon * 1e9 * (1 - 1e-9)
    assert release.cost.atto_delta >= release.delta * 1e18 * (1 - 1e-9)


def test_parts_are_rounded_up_one_by_one():
    assert sequential("s", *[of(1e-12)] * 5).cost == Cost(5)


def test_parts_whose_composition_is_not_told_are_no_release():
    with pytest.raises(TypeError, match="how"):
        Composition(epsilon=0.7, method="made by hand", members=(of(0.3), of(0.4)))


@pytest.mark.parametrize("how", ["by hand", None, "PARALLEL"])
def test_releases_belong_together_in_one_of_two_ways(how):
    with pytest.raises((InvalidSetting, ValueError)):
        Composition(epsilon=0.3, method="made by hand", how=how, members=(of(0.3),))


@pytest.mark.parametrize("how", Composing)
def test_a_claim_that_its_parts_do_not_add_up_to_is_refused(how):
    with pytest.raises(InvalidSetting, match="parts"):
        Composition(epsilon=0.001, method="made by hand", how=how, members=(of(0.3),))
    with pytest.raises(InvalidSetting, match="parts"):
        Composition(epsilon=0.3, delta=1e-9, method="made by hand", how=how, members=(of(0.3),))
    with pytest.raises(InvalidSetting, match="parts"):
        replace(parallel("p", of(0.3), of(0.4)), how=how, members=(of(0.5), of(0.6)))


@pytest.mark.parametrize("how", [parallel, sequential])
def test_a_composition_has_parts(how):
    with pytest.raises(InvalidSetting) as caught:
        how("empty")
    assert caught.value.fix


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf, -math.inf])
def test_what_is_no_guarantee_has_no_cost(epsilon):
    for compose in (
        lambda bad: bad,
        lambda bad: parallel("p", of(1.0), bad),
        lambda bad: sequential("s", bad, of(1.0)),
    ):
        with pytest.raises(InvalidEpsilon):
            _ = compose(of(epsilon)).cost


@pytest.mark.parametrize("delta", [-1e-9, math.nan, math.inf])
def test_what_is_no_delta_has_no_cost(delta):
    with pytest.raises(InvalidEpsilon):
        _ = of(1.0, delta).cost


# -- marks ------------------------------------------------------------------------------------------------------------
@every_example
def test_a_non_private_twin_says_so(release):
    twin = replace(release, epsilon=math.inf)
    assert not twin.private
    assert twin.describe()["nano_epsilon"] is None
    assert json.loads(spelled(twin))["nano_epsilon"] is None
    assert not parallel("p", of(1.0), twin).private
    assert not sequential("s", twin, of(1.0)).private
    with pytest.raises(InvalidEpsilon, match=f"{release.name} is non-private"):
        _ = twin.cost


def test_one_seeded_part_marks_the_whole():
    seeded = replace(of(1.0), seeded=True)
    for how in (parallel, sequential):
        assert how("c", of(1.0), seeded).seeded
        assert how("outer", of(1.0), how("c", of(1.0), seeded)).seeded
        assert not how("c", of(1.0), of(1.0)).seeded
    assert json.loads(spelled(parallel("c", seeded)))["seeded"] is True


@every_example
def test_a_mark_never_comes_off_and_changes_nothing_else(release):
    marked = release.with_seed_mark(True)
    assert marked == replace(release, seeded=True)
    assert marked.with_seed_mark(False) == marked.with_seed_mark(True) == marked
    assert release.with_seed_mark(False) == release


def test_the_mark_reaches_every_part():
    release = parallel("p", sequential("s", of(1.0), of(2.0)), of(1.0)).with_seed_mark(True)
    assert release.seeded
    assert all(part.seeded for part in release.parts)
    assert all(part.seeded for part in release.parts[0].parts)
    assert release.cost == parallel("p", sequential("s", of(1.0), of(2.0)), of(1.0)).cost


def test_a_part_that_is_seeded_shows_and_neighbours_are_one():
    hidden = parallel("p", of(1.0).with_seed_mark(True), of(1.0))
    assert hidden.seeded
    with pytest.raises(InvalidSetting, match="never comes off"):
        replace(hidden, seeded=False)
    with pytest.raises(InvalidSetting, match="neighbours"):
        replace(parallel("p", of(1.0)), neighbours="none at all")


@pytest.mark.parametrize("n", [0, -5, 10.0, True, "many", None])
def test_records_are_counted_in_whole_numbers_from_one(n):
    with pytest.raises(InvalidSetting):
        replace(EXAMPLES["private-auc"], n=n)


@pytest.mark.parametrize("head", [{"epsilon": "2.0"}, {"epsilon": True}, {"delta": 2.0}, {"seeded": 0}])
def test_what_no_release_says_is_refused(head):
    with pytest.raises(InvalidSetting):
        replace(of(1.0), **head)
