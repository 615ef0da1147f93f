"""A release is a value: it never changes, and one description has one byte string."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossward.errors import InvalidEpsilon, InvalidSetting
from crossward.privacy.budget import Cost
from crossward.privacy.release import NEIGHBOURS, Release, parallel, sequential
from crossward.version import __version__

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=3,
)
parameters = st.dictionaries(st.text(max_size=3), plain, max_size=3)
leaves = st.builds(
    Release.of,
    st.sampled_from(["a", "b"]),
    st.floats(0, 10),
    parameters,
    delta=st.sampled_from([0.0, 1e-6, 1e-9]),
    seeded=st.booleans(),
)
releases = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda how, parts: how("composed", *parts),
        st.sampled_from([parallel, sequential]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=4,
)


def of(epsilon: float, delta: float = 0.0, **more: object) -> Release:
    return Release.of("test", epsilon, more, delta=delta)


def test_a_release_cannot_be_changed():
    release = of(1.0, n=5)
    for name in ("epsilon", "parameters", "parts", "seeded"):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(release, name, 0)
    with pytest.raises((AttributeError, TypeError)):
        release.note = "a new attribute"
    release.settings["n"] = 6
    assert release.settings == {"n": 5}


def test_what_was_given_may_change_and_the_release_does_not():
    values, inner = {"lambda": [0.1, 0.2]}, [[1], [2]]
    release = Release.of("test", 1.0, values | {"nested": inner})
    before = release.canonical()
    values["lambda"].append(0.3)
    inner[0].append(9)
    assert release.canonical() == before
    assert release.settings["nested"] == ((1,), (2,))


@settings(max_examples=40)
@given(releases)
def test_a_release_is_a_key_and_travels(release):
    for twin in (pickle.loads(pickle.dumps(release)), copy.deepcopy(release), replace(release)):
        assert twin == release
        assert hash(twin) == hash(release)
        assert twin.canonical() == release.canonical()
        assert twin.cost == release.cost
    assert {release: 1}[copy.deepcopy(release)] == 1


@given(values=parameters, seed=st.randoms(use_true_random=False))
def test_the_order_of_parameters_does_not_matter(values, seed):
    names = list(values)
    seed.shuffle(names)
    shuffled = {name: values[name] for name in names}
    assert Release.of("m", 1.0, shuffled) == Release.of("m", 1.0, values)
    assert Release.of("m", 1.0, shuffled).canonical() == Release.of("m", 1.0, values).canonical()


@settings(max_examples=40)
@given(releases)
def test_the_canonical_bytes_are_the_description(release):
    described = json.loads(release.canonical())
    assert described["epsilon"] == release.epsilon
    assert described["version"] == __version__
    assert described["neighbours"] == NEIGHBOURS
    assert b"\n" not in release.canonical()
    assert release.canonical() == json.dumps(described, sort_keys=True, separators=(",", ":")).encode()


def test_the_canonical_bytes_are_these():
    release = Release.of("m", 0.5, {"b": 1, "a": (True, None)}, delta=1e-6)
    assert release.canonical() == (
        b'{"delta":1e-06,"epsilon":0.5,"mechanism":"m","neighbours":"replace-one-record",'
        b'"parameters":{"a":[true,null],"b":1},"seeded":false,"version":"%b"}' % __version__.encode()
    )


def test_a_whole_epsilon_has_the_bytes_of_its_float():
    assert Release.of("m", 1, {}) == Release.of("m", 1.0, {})
    assert Release.of("m", 1, {}).canonical() == Release.of("m", 1.0, {}).canonical()
    assert Release.of("m", 1.0, {}, delta=0).canonical() == Release.of("m", 1.0, {}).canonical()


@pytest.mark.parametrize("change", ["mechanism", "epsilon", "delta", "parameters", "seeded", "neighbours", "version"])
def test_any_change_changes_the_bytes(change):
    release = of(1.0, n=5)
    other = {
        "mechanism": "other",
        "epsilon": 2.0,
        "delta": 0.1,
        "parameters": (("n", 6),),
        "seeded": True,
        "neighbours": "add-or-remove",
        "version": "0",
    }
    assert replace(release, **{change: other[change]}).canonical() != release.canonical()


@pytest.mark.parametrize("value", [{1}, {"a": 1}, np.arange(2), np.int64(1), object(), 1j, [1, {2}], b"x"])
def test_a_release_describes_itself_with_plain_values(value):
    with pytest.raises(InvalidSetting, match="plain values"):
        of(1.0, bad=value)


@pytest.mark.parametrize("value", [math.nan, math.inf, [1.0, -math.inf]])
def test_numbers_that_json_cannot_write_are_refused_when_made(value):
    with pytest.raises(InvalidSetting):
        of(1.0, bad=value)


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


@settings(max_examples=40)
@given(releases)
def test_the_cost_is_never_below_the_epsilon_that_is_told(release):
    assert release.cost.nano_epsilon >= release.epsilon * 1e9 * (1 - 1e-9)
    assert release.cost.atto_delta >= release.delta * 1e18 * (1 - 1e-9)


def test_parts_are_rounded_up_one_by_one():
    assert sequential("s", *[of(1e-12)] * 5).cost == Cost(5)


def test_parts_of_unknown_composition_pay_for_all():
    assert Release("made by hand", 0.7, parts=(of(0.3), of(0.4))).cost == Cost(700_000_000)


@pytest.mark.parametrize("how", ["parallel", "sequential", None])
def test_a_claim_that_its_parts_do_not_add_up_to_is_refused(how):
    with pytest.raises(InvalidSetting, match="parts"):
        Release("made by hand", 0.001, composition=how, parts=(of(0.3),))


@pytest.mark.parametrize("how", [parallel, sequential])
def test_a_composition_has_parts(how):
    with pytest.raises(InvalidSetting) as caught:
        how("empty")
    assert caught.value.fix


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf, -math.inf])
def test_what_is_no_guarantee_has_no_cost(epsilon):
    for release in (of(epsilon), parallel("p", of(1.0), of(epsilon)), sequential("s", of(epsilon), of(1.0))):
        with pytest.raises(InvalidEpsilon):
            _ = release.cost


@pytest.mark.parametrize("delta", [-1e-9, math.nan, math.inf])
def test_what_is_no_delta_has_no_cost(delta):
    with pytest.raises(InvalidEpsilon):
        _ = of(1.0, delta).cost


# -- marks ------------------------------------------------------------------------------------------------------------
def test_a_non_private_twin_says_so():
    twin = Release.non_private("twin", {"n": 3})
    assert not twin.private
    assert twin.describe()["epsilon"] is None
    assert json.loads(twin.canonical())["epsilon"] is None
    assert not parallel("p", of(1.0), twin).private
    assert not sequential("s", twin, of(1.0)).private


def test_one_seeded_part_marks_the_whole():
    seeded = Release.of("m", 1.0, {}, seeded=True)
    for how in (parallel, sequential):
        assert how("c", of(1.0), seeded).seeded
        assert how("outer", of(1.0), how("c", of(1.0), seeded)).seeded
        assert not how("c", of(1.0), of(1.0)).seeded
    assert json.loads(parallel("c", seeded).canonical())["seeded"] is True


def test_the_mark_reaches_every_part():
    release = parallel("p", sequential("s", of(1.0), of(2.0)), of(1.0)).with_seed_mark(True)
    assert release.seeded
    assert all(part.seeded for part in release.parts)
    assert all(part.seeded for part in release.parts[0].parts)
    assert release.cost == parallel("p", sequential("s", of(1.0), of(2.0)), of(1.0)).cost
