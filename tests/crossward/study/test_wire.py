"""Models on the wire: exact, and refused where they are not what the study asks for."""

import json
import math

import numpy as np
import pytest

from crossward.errors import InvalidMessage, UnknownVersion
from crossward.learning.model import SplitModel
from crossward.privacy.noise import SYSTEM
from crossward.protocol.canonical import canonical, sha256
from crossward.protocol.constants import Role
from crossward.protocol.descriptions import description_digest, read_release, same_release, written
from crossward.protocol.messages import ModelMessage
from crossward.study import study_for
from crossward.study.wire import check_message, to_message, to_model
from crossward.study.work import aggregate, announce, train


def sent(message):
    """Over the wire and back."""
    return ModelMessage.from_json(message.canonical())


@pytest.fixture
def exchange(federation, randomness, rows, sources_of):
    """A study's messages as they arrive, the target's model, and what it learned from."""

    def run(study):
        trained = sources_of(study, federation, randomness)
        arrived = [sent(to_message(study, source, party)) for party, source in zip(study.sources, trained, strict=True)]
        models = [to_model(study, message) for message in arrived]
        if study.method.aggregates:
            public = federation.branches[2].encode(study.schema)
            combined = aggregate(study, models, *public)
            arrived = [sent(to_message(study, combined, "coordinator", arrived))]
            models = [to_model(study, arrived[0])]
        target = train(study, Role.TARGET, *rows(study, Role.TARGET, federation.branches[1]), models, randomness)
        return trained, arrived, target

    return run


def test_models_survive_the_wire_bit_by_bit(study, exchange, federation):
    trained, arrived, target = exchange(study)
    X, _ = federation.branches[1].encode(study.schema)
    if not study.method.aggregates:
        for source, message in zip(trained, arrived, strict=True):
            check_message(study, message, allow_seeded=True)
            back = to_model(study, message)
            assert back.release == source.release
            if isinstance(back, SplitModel):
                assert all(
                    np.array_equal(a.weights, b.weights) for a, b in zip(back.groups, source.model.groups, strict=True)
                )
            else:
                assert np.array_equal(back.weights, source.model.weights)
    if target.release is None:
        with pytest.raises(InvalidMessage, match="does not leave"):
            to_message(study, target, study.targets[0], arrived)
        return
    message = sent(to_message(study, target, study.targets[0], arrived))
    check_message(study, message, allow_seeded=True)
    back = to_model(study, message, arrived)
    assert back.release == target.release
    assert np.array_equal(back.margins(X), target.margins(X))
    assert message.n == target.n
    assert message.inputs == tuple(source.digest for source in arrived)


@pytest.fixture(scope="module")
def released(federation, rows):
    """A source's message made with the system's randomness, as a service would."""
    study = study_for(federation.schema, method="pst-h", sources=["main"], targets=["branch-2"])
    trained = train(study, Role.SOURCE, *rows(study, Role.SOURCE, federation.main), randomness=SYSTEM)
    return study, to_message(study, trained, "main")


def edited(message, edit):
    data = json.loads(message.canonical())
    edit(data)
    return ModelMessage.from_data(data)


def test_a_good_model_fits(released):
    study, message = released
    check_message(study, message)


def _put(*path_and_value):
    *path, last, value = path_and_value

    def edit(data):
        for key in path:
            data = data[key]
        data[last] = value(data[last]) if callable(value) else value

    return edit


@pytest.mark.parametrize(
    ("edit", "cause"),
    [
        (_put("study_hash", "0" * 64), "another study"),
        (_put("method", "simcomb"), "made by simcomb"),
        (_put("party", "branch-2"), "not a source"),
        (_put("kind", "train-target"), "not a target"),
        (_put("kind", "aggregate"), "nothing is aggregated"),
        (_put("n", lambda n: n + 1), "records"),
        (_put("inputs", ["0" * 64]), "learned from 1"),
        (_put("weights", lambda models: models[:1]), "1 models"),
        (_put("weights", 0, "steps", lambda w: w[:-1]), "weights"),
        (_put("weights", 0, "grid", lambda grid: grid - 1), "grid"),
        (_put("weights", 1, "grid", 900), "grid"),
        (_put("level1", {"grid": 0, "steps": [1]}), "level-1 has 1 weights"),
        (_put("release", "parameters", "groups", 0, "ball", "q", 0.9), "not the one"),
        (_put("release", "parameters", "groups", 0, "ball", "radius", lambda r: r * 1.001), "not the one"),
        (_put("release", "parameters", "groups", 0, "ball", "intercept", 0.4), "not the one"),
        (_put("release", "parameters", "groups", 0, "ball", "columns", lambda c: c[::-1]), "not the one"),
        (_put("release", "parameters", "groups", 0, "ball", "scale", None), "not the one"),
        (_put("release", "nano_epsilon", 500_000_000), "not the one"),
        (_put("release", "nano_epsilon", None), "nano_epsilon"),
        (_put("release", "nano_epsilon", 1e9), "nano_epsilon"),
        (_put("release", "nano_epsilon", "1000000000"), "nano_epsilon"),
        (_put("release", "nano_epsilon", 10**15 + 1), "nano_epsilon"),
        (_put("release", "atto_delta", -1), "atto_delta"),
        (_put("release", "atto_delta", "1"), "atto_delta"),
        (_put("release", "mechanism", "dppsgd"), "cannot be read"),
        (_put("release", "mechanism", "magic"), "not known"),
        (_put("release", "neighbours", "add-or-remove"), "not usable"),
        (_put("release", "seeded", True), "seeded"),
        (_put("release", "parameters", "n", 3), "records"),
        (_put("release", "parameters", "n", None), "n cannot be read"),
        (_put("release", "parameters", "n", True), "not complete"),
        (_put("release", "parameters", "more", 1), "not complete"),
        (_put("release", "parameters", "groups", 0, "lam", 1.0), "not the one"),
        (_put("release", "parameters", "groups", 0, "grid", 1e-30), "not the one"),
        (_put("release", {"mechanism": "x"}), "not known"),
        (_put("release", {"mechanism": "amp"}), "not usable"),
        (_put("release", "parts", []), "not usable"),
    ],
)
def test_what_does_not_fit_is_refused(released, edit, cause):
    study, message = released
    with pytest.raises(InvalidMessage, match=cause):
        check_message(study, edited(message, edit))


@pytest.mark.parametrize(
    ("edit", "cause"),
    [
        (_put("weights", 0, "steps", 0, "many"), "weights.0.steps.0"),
        (_put("weights", 0, "steps", 0, 0.5), "weights.0.steps.0"),
        (_put("weights", 0, "steps", 0, 1.0), "weights.0.steps.0"),
        (_put("weights", 0, "steps", 0, "1"), "weights.0.steps.0"),
        (_put("weights", 0, "steps", 0, True), "weights.0.steps.0"),
        (_put("weights", 0, "steps", 0, 2**52), "weights.0.steps.0"),
        (_put("weights", 0, "steps", 0, -(2**52)), "weights.0.steps.0"),
        (_put("weights", 0, "steps", []), "weights.0.steps"),
        (_put("weights", 0, "grid", 901), "weights.0.grid"),
        (_put("weights", 0, "grid", -901), "weights.0.grid"),
        (_put("weights", 0, "grid", -2.0), "weights.0.grid"),
        (_put("weights", 0, {"grid": 0, "steps": [1], "name": "x"}), "weights.0.name"),
        (_put("weights", 0, []), "weights.0"),
        (_put("weights", []), "weights"),
        (_put("level1", []), "level1"),
        (_put("kind", "train"), "kind"),
        (_put("method", "No Method"), "method"),
        (_put("party", "A B"), "party"),
        (_put("study_hash", "abc"), "study_hash"),
        (_put("n", -1), "n: "),
        (_put("release", "parameters", "tolerance", math.nan), "release"),
        (lambda data: data.update(extra=1), "extra"),
        (lambda data: data.pop("release"), "release"),
    ],
)
def test_what_is_malformed_is_refused_at_the_door(released, edit, cause):
    with pytest.raises(InvalidMessage, match=cause):
        edited(released[1], edit)


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_json_without_numbers_that_are_none(released, name):
    text = released[1].canonical().decode().replace('"n":', f'"m":{name},"n":', 1)
    with pytest.raises(InvalidMessage, match=name):
        ModelMessage.from_json(text)


def test_a_number_too_large_for_a_float(released):
    text = released[1].canonical().decode().replace('"n":', '"n":1e999,"o":', 1)
    with pytest.raises(InvalidMessage, match="1e999"):
        ModelMessage.from_json(text)


@pytest.mark.parametrize("version", [0, 2, None, "1", True])
def test_other_versions(released, version):
    data = json.loads(released[1].canonical()) | {"version": version}
    with pytest.raises(UnknownVersion, match="version"):
        ModelMessage.from_data(data)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"version":1,"version":1}', b"[" * 200_000])
def test_what_is_no_message(data):
    with pytest.raises(InvalidMessage):
        ModelMessage.from_json(data)


def test_size_is_limited(monkeypatch, released):
    monkeypatch.setattr(ModelMessage, "most_bytes", 100)
    with pytest.raises(InvalidMessage, match="bytes"):
        ModelMessage.from_json(released[1].canonical())


def test_the_last_digit_of_a_ball_may_differ_between_machines(released):
    study, message = released
    other = edited(
        message, _put("release", "parameters", "groups", 0, "ball", "radius", lambda r: math.nextafter(r, 9))
    )
    check_message(study, other)
    assert to_model(study, other).groups[0].ball == to_model(study, message).groups[0].ball


def test_inputs_are_those_it_learned_from(federation, exchange):
    study = study_for(
        federation.schema, method={"name": "pst-h", "mix": "scores"}, sources=["main", "other"], targets=["branch-2"]
    )
    _, arrived, target = exchange(study)
    message = to_message(study, target, "branch-2", arrived)
    with pytest.raises(InvalidMessage, match="other releases than were given"):
        to_model(study, message, arrived[::-1])
    with pytest.raises(InvalidMessage, match="learned from 2"):
        to_message(study, target, "branch-2", arrived[:1])
    twice = edited(message, _put("inputs", [arrived[0].digest] * 2))
    with pytest.raises(InvalidMessage, match="twice"):
        check_message(study, twice, allow_seeded=True)


def test_level_one_has_as_many_weights_as_scores(federation, exchange):
    study = study_for(federation.schema, method="pst-h", targets=["branch-2"])
    _, arrived, target = exchange(study)
    message = to_message(study, target, "branch-2", arrived)
    with pytest.raises(InvalidMessage, match="level-1 has 2 weights"):
        check_message(study, edited(message, _put("level1", "steps", lambda w: w[:-1])), allow_seeded=True)
    with pytest.raises(InvalidMessage, match="seeded"):
        check_message(study, message)


def data_of(parts):
    """Parts wrapped into a composition of their own."""
    return {**parts[0], "composition": "parallel", "parts": parts} | {"mechanism": "average"}


def test_an_aggregate_names_all_it_is_made_of(federation, exchange):
    study = study_for(federation.schema, method={"name": "feature", "public_set": "p"}, targets=["branch-2"])
    _, (message,), _ = exchange(study)
    check_message(study, message, allow_seeded=True)

    def cheaper(data):
        data["release"]["nano_epsilon"] = data["release"]["parts"][0]["nano_epsilon"] = 500_000_000

    def unlike_a_source(data):
        auc = {"mechanism": "private-auc", "parameters": {"n": 5, "pairs_share": 0.8}}
        data["release"]["parts"] = [part | auc for part in data["release"]["parts"]]

    for edit, cause in (
        (cheaper, "not one that the study leads to"),
        (unlike_a_source, "not one that the study leads to"),
        (_put("release", "parts", 0, "nano_epsilon", 500_000_000), "not what its parts add up to"),
        (_put("release", "composition", "sequential"), "not what its parts|not an aggregate"),
        (_put("release", "mechanism", "average-of-nothing"), "not an aggregate"),
        (_put("release", "parts", lambda parts: parts * 2), "each of its inputs"),
        (_put("release", "parts", 0, "neighbours", "none at all"), "neighbours"),
        (_put("release", "parts", lambda parts: [data_of(parts)]), "too deeply"),
        (_put("party", "nobody-knows"), "coordinator alone"),
        (_put("weights", 0, {"grid": 900, "steps": [1] * len(message.weights[0].steps)}), "longer than"),
        (_put("n", 5), "no private records"),
    ):
        with pytest.raises(InvalidMessage, match=cause):
            check_message(study, edited(message, edit), allow_seeded=True)


def test_descriptions_come_back_as_releases(released):
    _, message = released
    release = read_release(message.release)
    assert written(release) == message.release
    assert same_release(message.release, release.describe())
    assert not same_release(message.release, message.release | {"atto_delta": 1})
    assert not same_release([1], [True])
    assert same_release([1], [1 + 1e-12])
    assert same_release([1 + 1e-12], [1])
    assert not same_release([1.5], [True])


def test_no_part_of_a_release_hides_a_seed(federation, exchange):
    study = study_for(federation.schema, method="pst-h", targets=["branch-2"])
    _, arrived, target = exchange(study)
    message = to_message(study, target, "branch-2", arrived)

    def hide(data):
        data["release"]["seeded"] = data["release"]["parts"][1]["seeded"] = False

    with pytest.raises(InvalidMessage, match="seeded exactly"):
        check_message(study, edited(message, hide))


def test_a_cost_is_told_to_the_last_unit(released):
    study, message = released
    with pytest.raises(InvalidMessage, match="not the one"):
        check_message(study, edited(message, _put("release", "nano_epsilon", lambda epsilon: epsilon - 1)))
    with pytest.raises(InvalidMessage, match="not the one"):
        check_message(study, edited(message, _put("release", "atto_delta", 1)))


@pytest.mark.parametrize(
    "edit",
    [
        _put("release", "neighbours", "words of my own"),
        _put("release", "version", "x" * 1_000_000),
        _put("release", "parameters", "groups", 0, "pull", "words of my own"),
    ],
)
def test_a_release_carries_no_words_of_its_own(released, edit):
    study, message = released
    with pytest.raises(InvalidMessage, match=r"not usable|not complete"):
        check_message(study, edited(message, edit))


def test_many_parts_are_refused_before_they_are_read(released):
    study, message = released
    described = dict(message.release)
    many = {**described, "composition": "parallel", "parts": [described] * 5_000}
    with pytest.raises(InvalidMessage, match="too much"):
        check_message(study, message.model_copy(update={"release": many}))


def test_a_charge_names_the_very_bytes_of_the_description(released):
    """So that anyone who has the release and the ledger sees that it is what was paid for."""
    _, message = released
    described = canonical(message.release)
    assert described in message.payload
    assert sha256(described) == description_digest(read_release(message.release))
    assert b"version" not in described  # the code may be upgraded between the charge and the release


@pytest.mark.parametrize(
    "delta", [0.4831310830094813, 0.009020000000000001, 0.00912345678901234567, 1 / 3, 0.999, 1e-6]
)
def test_any_delta_of_a_study_is_told_exactly(federation, delta):
    """Else an honest release would be refused after it was paid for."""
    study = study_for(federation.schema, method={"name": "amp", "delta": delta}, targets=["branch-2"])
    announced = announce(study, Role.TARGET, {"level0": 5000})
    described = written(announced)
    assert written(read_release(described)) == described
    assert read_release(described).cost == announced.cost


def test_an_aggregate_has_one_grid(federation, exchange):
    study = study_for(federation.schema, method={"name": "feature", "public_set": "p"}, targets=["branch-2"])
    _, (message,), _ = exchange(study)

    def finer(data):
        [vector] = data["weights"]
        vector |= {"grid": vector["grid"] - 1, "steps": [2 * step for step in vector["steps"]]}

    with pytest.raises(InvalidMessage, match="coarsest grid"):
        check_message(study, edited(message, finer), allow_seeded=True)
