"""Models on their way between parties: what a trained model sends, whether a message fits its study, and back.

Asked by the coordinator before it stores a model, and by a target before it learns from one. The reader works out, from
the study and the record counts that the message names, what the party had to release: how many weights, in which balls,
at what epsilon, on what grid. Nothing is taken from the message that the study already says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from crossward.errors import CrosswardError, InvalidMessage
from crossward.learning.model import LinearModel
from crossward.methods.base import SourceModel, WireWeights
from crossward.privacy.output import common_grid
from crossward.privacy.release import Composing, Composition, Release
from crossward.protocol import versions
from crossward.protocol.canonical import sha256
from crossward.protocol.constants import COORDINATOR, Role, TaskKind
from crossward.protocol.descriptions import read_release, same_release, written
from crossward.protocol.envelopes import SignedRelease
from crossward.protocol.messages import ModelMessage, Vector
from crossward.protocol.tasks import TaskMessage
from crossward.study.study import Study
from crossward.study.work import TrainedModel, announce, input_kind, inputs_wanted, trained_levels
from crossward.version import __version__

KeyOf = Callable[[str, str], Ed25519PublicKey]
"""The public key of a party by its name and the key's; raises where there is none."""


def open_study(task: TaskMessage) -> Study:
    """The study of a task, if it has the hash that the task names."""
    if sha256(task.study.encode()) != task.study_hash:
        raise InvalidMessage("The task's study does not have the hash it names.", "Refuse the task.")
    return read_study(task.study)


@lru_cache(maxsize=64)
def read_study(document: str) -> Study:
    """A study from its canonical form. It is checked once: a service reads the same few again and again."""
    return Study.from_canonical(document)


def task_message(
    study: Study,
    *,
    id: str,
    kind: TaskKind,
    lease_seconds: float,
    inputs: tuple[SignedRelease, ...] = (),
    attempt: int = 1,
    lead: str = "",
    version: int | None = None,
) -> TaskMessage:
    """A task of this study, in the newest version of the protocol or a given one."""
    return TaskMessage(
        version=versions.newest() if version is None else version,
        id=id,
        kind=kind,
        study=study.canonical().decode(),
        study_hash=study.digest,
        inputs=inputs,
        attempt=attempt,
        lease_seconds=lease_seconds,
        lead=lead,
    )


# -- writing and reading ----------------------------------------------------------------------------------------------
def to_message(
    study: Study,
    trained: TrainedModel,
    party: str,
    inputs: Sequence[ModelMessage] = (),
    *,
    version: int | None = None,
) -> ModelMessage:
    """What a trained model sends, in the newest version of the protocol or a given one.

    Refuses what must stay at the site.
    """
    if trained.release is None or not trained.release.private:
        raise InvalidMessage("This model does not leave its site.", "Keep it there; send a result without a release.")
    if len(inputs) != trained.learned_from:
        raise InvalidMessage(f"It learned from {trained.learned_from} releases, not {len(inputs)}.", "Name them all.")
    sent = study.method.form(trained.kind.role).write(trained.model, study.terms)
    vectors = [model.weights for model in sent.models] + ([] if sent.level1 is None else [sent.level1])
    # An aggregate is made of releases alone: its grid is its own, and hides nothing.
    aggregated = trained.kind is TaskKind.AGGREGATE
    grids = [common_grid(weights) for weights in vectors] if aggregated else trained.release.grids
    written_out = [Vector.of(weights.tolist(), grid) for weights, grid in zip(vectors, grids, strict=True)]
    return ModelMessage(
        version=versions.newest() if version is None else version,
        study_hash=study.digest,
        party=party,
        kind=trained.kind,
        method=study.method.name,
        code_version=__version__,
        n=trained.n,
        weights=tuple(written_out[: len(sent.models)]),
        level1=None if sent.level1 is None else written_out[-1],
        release=written(trained.release),
        inputs=tuple(message.digest for message in inputs),
    )


def to_model(study: Study, message: ModelMessage, inputs: Sequence[ModelMessage] = ()) -> Any:
    """The library's model. `inputs` are needed where a model scores with its sources' models beside its own."""
    check_message(study, message, allow_seeded=True)
    terms, form = study.terms, study.method.form(message.kind.role)
    balls, _ = form.shape(terms, len(message.inputs))
    models = tuple(
        LinearModel(ball, np.array(vector.weights), terms.features)
        for ball, vector in zip(balls, message.weights, strict=True)
    )
    level1 = None if message.level1 is None else np.array(message.level1.weights)
    sources = _inputs_of(study, message, inputs)
    return form.read(WireWeights(models, level1), read_release(message.release), terms, sources)


def _inputs_of(study: Study, message: ModelMessage, inputs: Sequence[ModelMessage]) -> list[SourceModel]:
    """The models that a message learned from, if they were given; others than those it names are refused."""
    if tuple(given.digest for given in inputs) not in ((), message.inputs):
        raise InvalidMessage("The model learned from other releases than were given.", "Pass its inputs.")
    return [to_model(study, given) for given in inputs]


def open_inputs(
    study: Study, inputs: Sequence[SignedRelease], key_of: KeyOf, *, allow_seeded: bool = False
) -> tuple[ModelMessage, ...]:
    """What a target learns from, opened: every release verified, fitting the study, from a party of its own.

    The sources' models (or the one aggregate), in the order of their parties: the same at every site. Two releases of
    one party are refused: it would count twice in a mixture.
    """
    wanted = input_kind(study, TaskKind.TRAIN_TARGET)
    opened = []
    for signed in inputs:
        message = signed.verify(key_of(signed.party, signed.key_id))
        check_message(study, message, allow_seeded=allow_seeded)
        if message.kind is not wanted:
            raise InvalidMessage(f"{message.party!r} sent the model of {message.kind}, not of {wanted}.", "Refuse it.")
        opened.append(message)
    parties = [message.party for message in opened]
    if len(set(parties)) != len(parties):
        raise InvalidMessage("A party has two releases among the inputs.", "One release of each source is used.")
    return tuple(sorted(opened, key=lambda message: message.party))


# -- does it fit? -----------------------------------------------------------------------------------------------------
def check_message(study: Study, message: ModelMessage, *, allow_seeded: bool = False) -> None:
    """Refuse a model that is not what the study asks of this party and task. Services never allow a seed."""
    for cause in _misfits(study, message, allow_seeded):
        raise InvalidMessage(f"The model of {message.party!r} ({message.kind}) does not fit: {cause}", "Refuse it.")


def _misfits(study: Study, message: ModelMessage, allow_seeded: bool) -> Iterator[str]:
    """Every way in which the message is not what the study asks for; the later ones rely on the earlier."""
    try:
        yield from _wrong_sender(study, message)
        yield from _wrong_shapes(study, message)
        try:
            release = read_release(message.release)
        except InvalidMessage as error:
            yield str(error)
            return
        if release.seeded and not allow_seeded:
            yield "its noise came from a seeded generator, which others could repeat."
        if message.kind is TaskKind.AGGREGATE:
            yield from _wrong_aggregate(study, message, release)
        else:
            yield from _wrong_release(study, message, release)
    except ArithmeticError:
        yield "a number in it is out of range."


def _wrong_sender(study: Study, message: ModelMessage) -> Iterator[str]:
    method, kind = study.method, message.kind
    if message.study_hash != study.digest:
        yield "it names the hash of another study."
    if message.method != method.name:
        yield f"it was made by {message.method} and the study asks for {method.name}."
    if kind is TaskKind.AGGREGATE and not method.aggregates:
        yield f"nothing is aggregated under {method.name}."
    parties = {TaskKind.TRAIN_SOURCE: study.sources, TaskKind.TRAIN_TARGET: study.targets}
    if kind is TaskKind.AGGREGATE and message.party != COORDINATOR:
        yield "the coordinator alone aggregates."
    elif message.party not in parties.get(kind, (COORDINATOR,)):
        yield f"the party is not a {kind.role} of the study."
    if kind is not TaskKind.AGGREGATE and not method.pays(kind.role):
        yield f"a {kind.role} releases nothing under {method.name}."
    count, (low, high) = len(message.inputs), inputs_wanted(study, kind)
    if len(set(message.inputs)) != count:
        yield "it names an input twice."
    if not low <= count <= high:
        yield f"it learned from {count} releases, and {low} to {high} are in question."


def _wrong_shapes(study: Study, message: ModelMessage) -> Iterator[str]:
    terms = study.terms
    balls, level1 = study.method.form(message.kind.role).shape(terms, len(message.inputs))
    if len(message.weights) != len(balls):
        yield f"it has {len(message.weights)} models and the study asks for {len(balls)}."
    for k, (vector, ball) in enumerate(zip(message.weights, balls, strict=False)):
        if len(vector.steps) != ball.dimension(terms.features):
            yield f"model {k} has {len(vector.steps)} weights and the study asks for {ball.dimension(terms.features)}."
    sent = None if message.level1 is None else len(message.level1.steps)
    if sent != level1:
        yield f"level-1 has {sent or 'no'} weights and the study asks for {level1 or 'none'}."


def _wrong_release(study: Study, message: ModelMessage, release: Release) -> Iterator[str]:
    """The release must be the one that `announce` describes for the record counts it names."""
    role, names = message.kind.role, trained_levels(study, message.kind.role)
    simple = release.parts or (release,)
    counts = [part.records for part in simple]
    if len(names) != len(simple) or not all(counts):
        yield "its release description does not name the records of each level."
        return
    named = {level: count for level, count in zip(names, counts, strict=True) if count}
    if sum(named.values()) != message.n:
        yield f"its release counts {sum(named.values())} records and the message {message.n}."
    try:
        announced = announce(study, role, named, len(message.inputs))
    except CrosswardError as error:
        yield f"no such release is possible: {error}"
        return
    if announced is None or not same_release(written(release), written(announced)):
        yield "its release description is not the one that the study leads to."
        return
    yield from _off_grid(message, release)


def _wrong_aggregate(study: Study, message: ModelMessage, release: Release) -> Iterator[str]:
    """Post-processing of the sources' releases: as many parts as inputs, each one that a source may make."""
    if not isinstance(release, Composition) or release.how is not Composing.PARALLEL:
        yield "its release is not an aggregate of sources' releases."
    if len(release.parts) != len(message.inputs):
        yield "its release does not name each of its inputs."
    [level] = trained_levels(study, Role.SOURCE)
    for part in release.parts:
        announced = announce(study, Role.SOURCE, {level: part.records or 0})
        if announced is None or not same_release(written(part), written(announced)):
            yield "a source's release in it is not one that the study leads to."
    if message.n != 0:
        yield "an aggregate is trained on no private records."
    if any(vector != Vector.of(vector.weights, common_grid(np.array(vector.weights))) for vector in message.weights):
        yield "its weights are not on the coarsest grid on which they lie."
    weights = np.array([weight for vector in message.weights for weight in vector.weights])
    yield from study.method.check_aggregate(release, weights, len(message.inputs))


def _off_grid(message: ModelMessage, release: Release) -> Iterator[str]:
    """Noised weights are multiples of a public grid; anything finer would carry bits that nobody paid for."""
    vectors = [*message.weights, *([] if message.level1 is None else [message.level1])]
    if release.grids != tuple(vector.spacing for vector in vectors):
        yield "its weights do not lie on the grids that its release declares."
