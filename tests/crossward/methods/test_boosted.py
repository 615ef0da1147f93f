"""What a target keeps of a boosted ensemble is data: it comes back to the bit, and nothing else comes back at all."""

import json
import pickle
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from crossward.errors import InvalidInput, InvalidMessage, InvalidSetting, NotFinite
from crossward.learning.aggregation import BoostedModel
from crossward.learning.model import LinearModel, ReleasedModel
from crossward.learning.records import Ball
from crossward.learning.trees import Trees
from crossward.methods.boosted import Boosted
from crossward.privacy.mechanisms import NothingPrivate
from crossward.protocol.canonical import canonical

METHOD = Boosted(iterations=6, depth=3)
FIELDS = ("first", "feature", "threshold", "missing_left", "left", "right", "value")
RECORDS = np.random.default_rng(0).uniform(-1, 1, (600, 2))
LABELS = np.where(RECORDS[:, 0] * RECORDS[:, 1] > 0.1, 1.0, -1.0)


def sources(count=3):
    rng = np.random.default_rng(1)
    return [
        ReleasedModel(LinearModel(Ball(2.0, intercept=0.5), rng.normal(0, 3, 3), 2), NothingPrivate())
        for _ in range(count)
    ]


@cache
def trained(method=METHOD):
    with threadpool_limits(1):  # on a busy machine its threads wait for one another
        return method.target_work(None, len(LABELS), sources()).train(RECORDS, LABELS, {}, None)


def kept(**changes):
    """What the method keeps, with some of it changed."""
    return canonical(json.loads(METHOD.keep(trained())) | changes)


def restored(data, method=METHOD, count=3):
    return method.restore(None, sources(count), data)


@pytest.mark.parametrize(
    "method",
    [METHOD, Boosted(), Boosted(iterations=1, depth=1), Boosted(iterations=3, depth=9), Boosted(depth=2**53 - 1)],
    ids=lambda method: f"{method.iterations} of depth {method.depth}",
)
def test_what_is_kept_comes_back_to_the_bit(method):
    model = trained(method)
    data = method.keep(model)
    assert len(data) <= method._most_bytes
    back = restored(data, method)
    np.testing.assert_array_equal(back.margins(RECORDS), model.margins(RECORDS))
    np.testing.assert_array_equal(back.scores(RECORDS), model.scores(RECORDS))
    np.testing.assert_array_equal(back.contributions(RECORDS).values, model.contributions(RECORDS).values)
    assert method.keep(back) == data


def test_it_is_json_of_plain_numbers():
    data = json.loads(METHOD.keep(trained()))
    assert data.keys() == {"version", "columns", "base", *FIELDS}
    assert {type(number) for name in FIELDS for number in data[name]} == {int, float, bool}


def test_using_it_needs_no_scikit_learn(tmp_path):
    (tmp_path / "kept.json").write_bytes(METHOD.keep(trained()))
    script = (
        "import sys, numpy as np\n"
        "from crossward.learning.model import LinearModel, ReleasedModel\n"
        "from crossward.learning.records import Ball\n"
        "from crossward.methods.boosted import Boosted\n"
        "from crossward.privacy.mechanisms import NothingPrivate\n"
        "source = ReleasedModel(LinearModel(Ball(2.0, intercept=0.5), np.ones(3), 2), NothingPrivate())\n"
        "model = Boosted(iterations=6).restore(None, [source] * 3, open(sys.argv[1], 'rb').read())\n"
        "print(len(model.contributions(np.ones((5, 2))).values), 'sklearn' in sys.modules)\n"
    )
    command = [sys.executable, "-c", script, tmp_path / "kept.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == "5 False\n"


def test_scores_that_are_no_numbers_are_refused_before_anything_is_fitted():
    class Silent:
        def scores(self, X):
            return np.full(len(X), np.nan)

    work = METHOD.target_work(None, len(LABELS), sources())
    with pytest.raises(NotFinite):
        replace(work, partners=[Silent()]).train(RECORDS, LABELS, {}, None)


# -- what does not come back ------------------------------------------------------------------------------------------
class Burglar:
    def __reduce__(self):
        return exec, ("raise SystemExit('this was run')",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_and_not_run(protocol):
    with pytest.raises(InvalidMessage, match=r"stored ensemble.*not JSON.* Train it again"):
        restored(pickle.dumps(Burglar(), protocol))


def test_nothing_kept_is_nothing_to_restore():
    with pytest.raises(InvalidSetting, match="never stored"):
        restored(None)
    with pytest.raises(InvalidSetting, match="no boosted ensemble"):
        METHOD.keep(sources()[0])


@pytest.mark.parametrize(
    ("method", "count", "cause"),
    [
        (METHOD, 2, "of 3 partners and there are 2"),
        (METHOD, 4, "of 3 partners and there are 4"),
        (Boosted(iterations=5, depth=5), 3, "6 trees and may have 5"),
        (Boosted(iterations=6, depth=2), 3, "deeper than 2"),
        (Boosted(iterations=1, depth=1), 3, r"bytes and may have \d+"),
    ],
)
def test_an_ensemble_of_other_settings_is_refused(method, count, cause):
    with pytest.raises(InvalidMessage, match=cause):
        restored(kept(), method, count)


def test_a_tree_with_more_leaves_than_are_ever_fitted_is_refused():
    inner = 31  # each with a leaf to its left, the next to its right
    own = np.arange(2 * inner + 1)
    leaf = (own % 2 == 1) | (own == 2 * inner)
    comb = Trees(
        columns=3,
        base=0.0,
        first=np.array([0]),
        feature=np.zeros_like(own),
        threshold=np.zeros(len(own)),
        missing_left=np.zeros(len(own), dtype=bool),
        left=np.where(leaf, own, own + 1),
        right=np.where(leaf, own, own + 2),
        value=np.zeros(len(own)),
    )
    assert comb.depth == inner
    with pytest.raises(InvalidMessage, match="over 31 leaves"):
        restored(METHOD.keep(BoostedModel((), comb)), Boosted(iterations=6, depth=40))


HUGE = "1" * 5000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"null",
        b"[]",
        b"{}",
        b"0",
        b'"text"',
        b"\xff\xfe",
        kept()[:-1],
        kept() + b"\n",
        kept().replace(b"[", b"[ ", 1),
        kept().replace(b'"base":', b'"base":NaN,"base":', 1),
        kept(version=0),
        kept(version=2),
        kept(version="1"),
        kept(version=True),
        kept(more=1),
        kept(base=None),
        kept(base="0"),
        kept(columns=0),
        kept(columns=2**53 - 1),
        kept().replace(b'"columns":3', f'"columns":{HUGE}'.encode()),
        kept().replace(b'"base":', b'"base":1e999,"x":'),
        kept(first=[]),
        kept(first=[0] * 7),
        kept(first=[2**53 - 1]),
        kept(left=[-1]),
        kept(value=[True]),
        kept(value=[1e101] * len(trained().ensemble.value)),
        kept(base=-1e300),
        kept(value={}),
        kept(threshold=[[0.5]]),
        kept(missing_left=[0, 1]),
        kept(**{name: [] for name in FIELDS}),
        *(canonical({key: value for key, value in json.loads(kept()).items() if key != name}) for name in FIELDS),
    ],
)
def test_what_is_no_ensemble_is_refused(data):
    with pytest.raises(InvalidMessage, match="stored ensemble"):
        restored(data)


# -- whatever it is ---------------------------------------------------------------------------------------------------
def comes_back_or_is_refused(data):
    """Nothing but our own errors; and what does come back is used without fault, and is what was kept."""
    try:
        model = restored(data)
    except InvalidInput:
        return
    assert METHOD.keep(model) == data
    assert np.all(np.isfinite(model.margins(RECORDS[:20])))


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_bytes_that_were_changed(data):
    changed = bytearray(kept())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(changed)))
        length = data.draw(st.sampled_from([0, 1, 1, 2, 50]))
        some = st.one_of(st.binary(max_size=4), st.sampled_from([b"0", b"9", b"-", b",", b"1e9", b"true", b"[", b"]"]))
        changed[start : start + length] = data.draw(some)
    comes_back_or_is_refused(bytes(changed))


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_numbers_that_were_changed(data):
    values = json.loads(kept())
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(FIELDS))
        place = data.draw(st.integers(0, len(values[name]) - 1))
        near = st.integers(-2, len(values["left"]) + 2)
        values[name][place] = data.draw(st.one_of(near, st.integers(), st.booleans(), finite(), st.just([0, 1])))
    comes_back_or_is_refused(written(values))


def finite():
    return st.floats(allow_nan=False, allow_infinity=False)


def written(values):
    """Its canonical bytes; where it has none, other JSON."""
    try:
        return canonical(values)
    except InvalidMessage:
        return json.dumps(values).encode()


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), finite(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=5), inner, max_size=5)),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(st.one_of(ANYTHING, st.fixed_dictionaries(dict.fromkeys(("version", "columns", "base", *FIELDS), ANYTHING))))
def test_any_json(values):
    comes_back_or_is_refused(written(values))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data):
    comes_back_or_is_refused(data)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 10_000,
        b"[" * 5_000 + b"]" * 5_000,
        b'{"a":' * 3_000,
        b"[" + b"[]," * 3_000 + b"[]]",
        kept(first=list(range(1000))),
        kept(left=[2**53 - 1] * 500, right=[2**53 - 1] * 500),
        kept(first=[0, 2**53 - 1]),
        b"{" + b",".join(b'"%05d":0' % number for number in range(1_000)) + b"}",
        b" " * 10_000,
        b"9" * 10_000,
        b'"' + b"\\u0000" * 1_700 + b'"',
        b"x" * 50_000_000,
    ],
    ids=lambda data: data[:12].decode(),
)
def test_little_is_taken_to_see_that_it_is_nothing(data):
    tracemalloc.start()
    try:
        comes_back_or_is_refused(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
