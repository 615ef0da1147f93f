"""The person as the unit of privacy: at most m records of each are kept, chosen by keyed hash and never by value.

A choice by value (the latest, the most complete) would let what one record says decide whether another is used.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from crossward.errors import EmptyData, InvalidData
from crossward.learning.encoding.values import is_missing
from crossward_site.data.mapping import DataMap, value_text
from crossward_site.data.places import Raw
from crossward_site.identity.secret import keyed


@dataclass(frozen=True, slots=True)
class Persons:
    """For each person, by keyed hash: the numbers of the records kept, in the order of their own keyed hashes.

    `humans` has for each person the keyed hash that is the same in every dataset of the site.
    """

    records_of: dict[str, list[int]]
    records: int
    humans: dict[str, str]

    @property
    def dropped(self) -> int:
        """How many records were not kept."""
        return self.records - sum(map(len, self.records_of.values()))


def persons_of(raw: Raw, mapping: DataMap, dataset: str, secret: bytes, most: int) -> Persons:
    """Who is in the data, and which of their records count."""
    if raw.rows == 0:
        raise EmptyData(f"{raw.where} has no records.", "Give at least one.")
    names = _identities(raw, mapping.person, "person")
    records = _identities(raw, mapping.record, "record") if mapping.record else None
    if records is not None:
        _check_once(raw, str(mapping.record), records)
    all_rows: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(names):
        all_rows[name].append(row)
    kept, humans = {}, {}
    for name, rows in all_rows.items():
        # Without record ids the order within the file tells records apart; it is no value of theirs.
        tags = [records[row] for row in rows] if records else [str(k) for k in range(len(rows))]
        person = keyed(secret, "person", dataset, name)
        kept[person] = _chosen(rows, tags, secret, name, most)
        humans[person] = keyed(secret, "human", name)
    return Persons(kept, raw.rows, humans)


def _chosen(rows: list[int], tags: list[str], secret: bytes, name: str, most: int) -> list[int]:
    """At most so many of a person's rows."""
    if len(rows) <= most:
        return rows
    hashed = sorted((keyed(secret, "record", name, tag), row) for tag, row in zip(tags, rows, strict=True))
    return [row for _, row in hashed[:most]]


def _identities(raw: Raw, column: str, what: str) -> list[str]:
    values = raw.columns[column]
    identities = []
    for row, value in enumerate(values if isinstance(values, list) else values.tolist()):
        if is_missing(value):
            raise InvalidData(
                f"{raw.where}, {raw.row_name(row)}: column {column!r}, which names the {what}, is empty.",
                f"Every record needs its {what}.",
            )
        identities.append(value_text(value))
    return identities


def _check_once(raw: Raw, column: str, records: list[str]) -> None:
    first: dict[str, int] = {}
    for row, record in enumerate(records):
        if record in first:
            raise InvalidData(
                f"{raw.where}, {raw.row_name(row)}: the record id {record!r} in column {column!r} is that of "
                f"{raw.row_name(first[record])} too.",
                "Give each record its own id, or remove the copy.",
            )
        first[record] = row
