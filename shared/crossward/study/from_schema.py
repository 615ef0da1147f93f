"""A study for a schema that is at hand: for demonstrations and simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossward.learning.encoding import Schema
from crossward.study.file import Study
from crossward.study.methods import METHODS


def study_for(
    schema: Schema,
    *,
    id: str = "demo",
    title: str = "A demonstration",
    purpose: str = "To show how hospitals learn from one another.",
    label: Mapping[str, Any] | None = None,
    method: str | Mapping[str, Any] = "pst-h",
    epsilon: float = 1.0,
    sources: Sequence[str] = ("main",),
    targets: Sequence[str] = ("branch-1",),
    groups: int = 2,
    **sections: Any,
) -> Study:
    """A study of this schema. What the method has no use for (sources, an epsilon, groups) is left out.

    `method="auto"` needs `records`, the public count of every party.
    """
    settings = {"name": method} if isinstance(method, str) else dict(method)
    kind = METHODS.get(str(settings.get("name")))
    data: dict[str, Any] = {
        "id": id,
        "title": title,
        "purpose": purpose,
        "label": {"name": "outcome", "positive": True} if label is None else dict(label),
        "features": schema.to_dict()["features"],
        "method": settings,
        "targets": list(targets),
        "epsilon": {},
    }
    if sources if kind is None else kind.has_sources:
        data["sources"] = list(sources)
        data["epsilon"]["source"] = epsilon
    if kind is None or kind.target_pays:
        data["epsilon"]["target"] = epsilon
    if kind is not None and kind.grouped:
        data["groups"] = {"kind": "importance", "k": groups}
    return Study.from_data(data | sections)
