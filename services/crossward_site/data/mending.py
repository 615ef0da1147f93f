"""A mapping that mends what a mapping can: it is proposed, never taken by itself. What only people know is to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from crossward_site.data.mapping import DataMap


class Mending:
    """Changes to a mapping, and remarks on what is left to do."""

    def __init__(self, mapping: DataMap) -> None:
        self._data: dict[str, Any] = mapping.model_dump(mode="json", exclude_defaults=True)
        self._mapping = mapping
        self._todo: dict[str, None] = {}

    def missing(self, words: Iterable[str]) -> None:
        """List words as missing."""
        known = self._data.setdefault("missing", [])
        self._data["missing"] = [*known, *(word for word in words if word not in known)]

    def rename(self, column: str, alike: str, feature: str | None, *, label: bool = False) -> None:
        """Read a feature, a label, the person or the record from the column that is spelled alike."""
        if feature is not None:
            self._entry(feature, label=label)["column"] = alike
            return
        for role in ("person", "record"):
            if self._data.get(role) == column:
                self._data[role] = alike

    def recode_missing(self, feature: str, code: str) -> None:
        """Take a number of a feature as missing."""
        self._entry(feature).setdefault("recode", {}).setdefault(code, None)

    def recode_words(self, feature: str, meant: Mapping[str, str], *, label: bool = False) -> None:
        """Take words of a public list as the study's."""
        recode = self._entry(feature, label=label).setdefault("recode", {})
        for text, word in meant.items():
            recode.setdefault(text, word)

    def drop_unit(self, feature: str) -> None:
        """Take a feature's values as they are."""
        for key in ("unit", "substance", "factor", "offset"):
            self._entry(feature).pop(key, None)

    def unit(self, feature: str, unit: str, substance: str = "") -> None:
        """Declare the unit that a column looks like, with the substance that its name tells where that matters."""
        self.drop_unit(feature)
        self._entry(feature).update({"unit": unit} | ({"substance": substance} if substance else {}))

    def recode(self, feature: str, words: list[str], shapes: list[str], *, label: bool = False) -> None:
        """Values that nobody but the hospital knows the meaning of."""
        section = "labels" if label else "features"
        shown = ", ".join(shapes)
        self.todo(f"{section}.{feature}.recode: {{your value ({shown}): {' | '.join(words[:12])} | null}}")

    def todo(self, remark: str) -> None:
        """Something to do by hand."""
        self._todo.setdefault(remark)

    def text(self) -> str:
        """The mapping in YAML, remarks first."""
        remarks = "".join(f"# TODO {remark}\n" for remark in self._todo)
        return remarks + yaml.safe_dump(self._data, sort_keys=False, allow_unicode=True)

    def _entry(self, feature: str, *, label: bool = False) -> dict[str, Any]:
        mapped = self._mapping.of_label(feature) if label else self._mapping.of_feature(feature)
        section = self._data.setdefault("labels" if label else "features", {})
        entry: dict[str, Any] = section.setdefault(feature, mapped.model_dump(mode="json", exclude_defaults=True))
        return entry
