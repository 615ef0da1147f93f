"""What the steward should know of the data before anybody learns from it. It is counted from records: never sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crossward.study import Study
from crossward_service.http.views import View

if TYPE_CHECKING:
    from crossward_site.data.reading import Reading


class FeatureFit(View):
    """Values of a feature that were missing, could not be read, lay outside of its range, or were recoded."""

    missing: int
    unread: int
    clipped: int
    recoded: int


class StudyFit(View):
    """How data fit a study: `unlabelled` rows count as empty seats."""

    study: str
    rows: int
    positives: int
    unlabelled: int
    features: dict[str, FeatureFit]


class TableReport(View):
    """Rows, persons, records beyond m, values missing in each column; who came and left; how the data fit a study.

    `new` persons got a seat; `known` ones had one before, from this or another dataset of the site.
    """

    rows: int
    persons: int
    records_dropped: int
    columns: tuple[str, ...]
    decimal: str
    missing: dict[str, int]
    new: int
    known: int
    came: int
    left: int
    stayed: int
    opted_out: int
    changed: int = 0
    fit: StudyFit | None = None


class ReportView(TableReport):
    """The report of a dataset's version."""

    dataset: str
    version: int


@dataclass(slots=True)
class Fit:
    """Counts how data fit a study, batch by batch."""

    study: str
    rows: int = 0
    positives: int = 0
    unlabelled: int = 0
    features: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def empty(cls, study: Study) -> Fit:
        """Nothing counted yet."""
        return cls(study.id, features={feature.name: [0, 0, 0, 0] for feature in study.features})

    def add(self, reading: Reading) -> None:
        """Count a batch."""
        self.rows += len(reading.y)
        self.positives += int((reading.y > 0).sum())
        self.unlabelled += int((reading.y == 0).sum())
        for name, notes in reading.notes.items():
            for at, found in enumerate((notes.missing, notes.unread, notes.clipped, notes.recoded)):
                self.features[name][at] += len(found)

    def view(self) -> StudyFit:
        """What was counted."""
        return StudyFit(
            study=self.study,
            rows=self.rows,
            positives=self.positives,
            unlabelled=self.unlabelled,
            features={
                name: FeatureFit(missing=missing, unread=unread, clipped=clipped, recoded=recoded)
                for name, (missing, unread, clipped, recoded) in self.features.items()
            },
        )
