"""What a model says about records: a probability, a class, and what each part of the model added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crossward_site.models.service import Served
from crossward_site.models.views import Contribution, Prediction

Value = bool | int | float | str | None


def predict(served: Served, records: Sequence[Mapping[str, Value]]) -> list[Prediction]:
    """Probability, class and what each part added to the margin, for raw values in the study's units.

    A part is a feature where there is one linear model, and a group of them where several are combined.
    """
    schema, model = served.study.schema, served.model
    X = schema.encode(list(records))
    explained = model.contributions(X).by_owner(schema.column_features)
    parts = [
        (part.name, list(dict.fromkeys(schema.column_features[column] for column in part.columns)))
        for part in explained.parts
    ]
    return [
        Prediction(
            probability=float(chance),
            positive=bool(margin > 0),
            contributions=[
                Contribution(group=name, features=features, contribution=float(amount))
                for (name, features), amount in zip(parts, row, strict=True)
            ],
        )
        for chance, margin, row in zip(model.scores(X), model.margins(X), explained.values, strict=True)
    ]
