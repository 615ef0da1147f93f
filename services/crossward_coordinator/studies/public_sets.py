"""The aggregator's public records (feature method): a CSV with the study's feature names and its label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, insert, select

from crossward.errors import Conflict, InvalidInput, InvalidMessage, NotFound
from crossward.privacy.noise import Array
from crossward.protocol.canonical import sha256
from crossward.protocol.states import StudyState
from crossward.study import Study
from crossward_connector.csv_files import CsvOptions, read_csv_bytes
from crossward_coordinator.studies.tables import StoredStudy, find_study, public_sets


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A public set that fits its study."""

    digest: str
    records: int
    text: str


def check(connection: Connection, study_id: str, data: bytes) -> PublicSet:
    """A file as a study's public set, or the reason that it is none. Reads only: it may take a while."""
    stored, name = find_study(connection, study_id), sha256(data)
    study = stored.study
    if not study.method.aggregates:
        raise Conflict(f"{study.method.name} uses no public set.", "Only the feature method does.")
    _check_welcome(connection, stored, name)
    text = _text(data)
    X, _ = encode(study, text)
    return PublicSet(name, len(X), text)


def put(connection: Connection, study_id: str, public_set: PublicSet) -> None:
    """Keep the public set of a study that has not started."""
    stored = find_study(connection, study_id, lock=True)
    _check_welcome(connection, stored, public_set.digest)
    if stored.state is StudyState.DRAFT:
        connection.execute(delete(public_sets).where(public_sets.c.study == study_id))
        values = {"digest": public_set.digest, "records": public_set.records, "document": public_set.text}
        connection.execute(insert(public_sets).values(study=study_id, **values))


def digest(connection: Connection, study_id: str) -> str | None:
    """The digest of a study's public set, if it has one."""
    query = select(public_sets.c.digest).where(public_sets.c.study == study_id)
    return connection.execute(query).scalar_one_or_none()


def _check_welcome(connection: Connection, stored: StoredStudy, name: str) -> None:
    """Once a study has started, only the set that it has is welcome: the first answer may have been lost."""
    if stored.state is not StudyState.DRAFT and digest(connection, stored.id) != name:
        raise Conflict(f"The study is {stored.state}.", "The public set is fixed when a study starts.")


def load(connection: Connection, study: Study) -> tuple[NDArray[np.floating], Array]:
    """The encoded records and labels of a study's public set."""
    query = select(public_sets.c.document).where(public_sets.c.study == study.id)
    text = connection.execute(query).scalar_one_or_none()
    if text is None:
        raise NotFound(f"The study {study.id} has no public set.", "PUT it before the study starts.")
    return encode(study, text)


def encode(study: Study, text: str) -> tuple[NDArray[np.floating], Array]:
    """Encode a public set as the sites encode theirs. Its values are public, so a refusal may quote them."""
    table = _table(text.encode())
    try:
        X = study.schema.encode(table)
        label = study.label
        if label.name not in table:
            raise InvalidMessage(f"The public set has no column {label.name!r}.", "Add the label.")
        y = study.schema.encode_labels(table[label.name], label.positive, label.negative)
    except InvalidMessage:
        raise
    except InvalidInput as error:
        raise InvalidMessage(f"The public set does not fit the study: {error.cause}", error.fix) from None
    if len(set(y.tolist())) != 2:
        raise InvalidMessage("The public set has labels of one class.", "Give records of both.")
    return X, y


def _table(data: bytes) -> dict[str, list[str]]:
    """The columns of a CSV, read as the sites read theirs; but told, not found by looking, how it is written."""
    try:
        rows = read_csv_bytes(data, options=CsvOptions(",", "utf-8", "."), where="The public set")
        table = pa.Table.from_batches(rows.batches(), rows.reading.schema)
    except InvalidInput as error:
        raise InvalidMessage(error.cause, error.fix) from None
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _text(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidMessage("The public set is not UTF-8.", "Save the CSV as UTF-8.") from None
    if "\0" in text:
        raise InvalidMessage("The public set holds a zero byte.", "Send a CSV.")
    return text
