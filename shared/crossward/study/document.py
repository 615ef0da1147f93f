"""A study file as text: its values, and the line on which each stands.

YAML as PyYAML reads it, with three differences that a study needs. A key given twice is an error. `1e-6` is a number,
as in YAML 1.2 and everywhere else. Anchors and tags are refused: a file must be readable by eye, and an alias can blow
a short text up to any size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from crossward.errors import Problem, StudyInvalid

MOST_CHARACTERS = 1_000_000
DEEPEST = 20
MOST_EVENTS = 30_000  # some thousand features: checking takes time with the square of their columns

Path = tuple[str | int, ...]

_EXPONENT = re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's safe loader, and 1e-6. The one in C where there is one: it is ten times as fast."""


class Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, which quotes what `Loader` would take for a number."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write a value in full wherever it occurs."""
        return True


for _reader in (Loader, Dumper):
    _reader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+.0123456789"))


def dotted(path: Path) -> str:
    """features[3].low"""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


@dataclass(slots=True)
class Document:
    """The values of a text, where each stands, and what is wrong with it before anyone asks what it means."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)
    """Unquoted scalars as the file has them, such as `no` for False."""
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: Path) -> int | None:
        """The line of a value, or of the nearest thing that holds it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def value(self, path: Path) -> Any:
        """What stands at a path; None where nothing does."""
        here = self.data
        for part in path:
            if isinstance(here, dict):
                here = here.get(part)
            elif isinstance(here, list) and isinstance(part, int) and part < len(here):
                here = here[part]
            else:
                return None
        return here

    def problem(self, path: Path, cause: str, fix: str = "") -> None:
        """Note something wrong at a place."""
        self.problems.append(Problem(self.line(path), dotted(path), cause, fix))

    @classmethod
    def read(cls, text: str) -> Document:
        """Read YAML. What is not YAML at all raises; what is strange in it becomes a problem."""
        if len(text) > MOST_CHARACTERS:
            raise StudyInvalid([Problem(None, "", f"The file has {len(text)} characters.", "A study is a short text.")])
        try:
            _refuse_what_grows(text)
            loader = Loader(text)
            try:
                root = loader.get_single_node()
                document = cls()
                document.data = _Builder(loader, document).value(root, ()) if root is not None else None
            finally:
                loader.dispose()
        except yaml.YAMLError as error:
            raise StudyInvalid([_not_yaml(error)]) from None
        return document


@dataclass(frozen=True, slots=True)
class _Builder:
    """Turns PyYAML's nodes into plain values, writing down lines as it goes."""

    loader: Loader
    document: Document

    def value(self, node: yaml.Node, path: Path) -> Any:
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            here = (*path, key)
            if not isinstance(key_node, yaml.ScalarNode):
                self.document.problem(path, "A key is not a text.", "Write keys as plain words.")
            elif key in values:
                first = self.document.lines[here]
                self.document.problems.append(
                    Problem(line, dotted(here), f"{key!r} is given twice, first on line {first}.", "Keep one of them.")
                )
            else:
                self.document.lines[here] = line
                values[key] = self.value(value_node, here)
        return values

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        if not getattr(node, "style", None):  # plain: None in Python, "" in C
            self.document.written[path] = str(node.value)
        try:
            return self.loader.construct_object(node)
        except ValueError:
            self.document.problem(path, f"{node.value!r} cannot be read.", "Put it in quotes if it is a text.")
            return None


def _refuse_what_grows(text: str) -> None:
    """Refuse aliases, tags and deep nesting as soon as they are seen: PyYAML's time grows with the square of depth."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=Loader)):
        if count > MOST_EVENTS:
            line = event.start_mark.line + 1
            raise StudyInvalid([Problem(line, "", "The file has too many values.", "A study is a short text.")])
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            line = event.start_mark.line + 1
            raise StudyInvalid([Problem(line, "", "The file nests too deeply.", "A study is a few levels deep.")])
        anchored = getattr(event, "anchor", None) is not None
        if anchored or getattr(event, "tag", None) not in (None, "!"):
            what = "an anchor or alias" if anchored else f"the tag {event.tag}"
            line = event.start_mark.line + 1
            raise StudyInvalid([Problem(line, "", f"The file uses {what}.", "Write the values out.")])


def _not_yaml(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return Problem(
        mark.line + 1 if mark is not None else None, "", f"This is not YAML: {said}.", "Check indentation and quotes."
    )
