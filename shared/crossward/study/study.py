"""The study: what parties agree on before a record is touched. Every field is public.

A study is written in YAML, read with every problem at once, and hashed in a canonical form: the same bytes however the
file was written (order of keys, 1 or 1.0, "2h" or "PT2H", defaults given or not). Every message names that hash.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Annotated, Any, Literal, get_type_hints

import yaml
from pydantic import BeforeValidator, Field, SerializeAsAny, TypeAdapter, ValidationError, model_validator

from crossward.errors import InvalidMessage, StudyInvalid
from crossward.learning.encoding import Schema
from crossward.methods import METHODS, Method, read_method
from crossward.methods.base import StudyFinding, Terms
from crossward.protocol.canonical import canonical, read_canonical, sha256
from crossward.protocol.constants import MOST_STUDY_BYTES
from crossward.study.auto import asks_for_auto, auto_findings, chosen
from crossward.study.document import Document, Dumper
from crossward.study.features import Label, StudyFeature
from crossward.study.rules import findings, terms_of
from crossward.study.sections import Cells, Chosen, Encoding, Epsilon, Groups, Quorum
from crossward.study.wording import explain, instead
from crossward.values import MOST_COLUMNS, MOST_PARTIES, AtLeastOne, Name, Section, Slug, Text, refusal

Parties = Annotated[tuple[Slug, ...], Field(max_length=MOST_PARTIES)]


class Study(Section):
    """A checked study. Lists keep their order: that of the features is the order of the columns.

    `records` are public counts, as the lead knows them: roughly right is enough. `method: auto` is resolved from them
    when a study is read, so that a study always names what will run; `chosen` then says so.
    """

    version: Literal[1] = 1
    id: Slug
    title: Name
    purpose: Text
    label: Label
    features: Annotated[tuple[StudyFeature, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    method: Annotated[SerializeAsAny[Method], BeforeValidator(read_method)]
    groups: Groups | None = None
    encoding: Encoding = Encoding()
    epsilon: Epsilon
    sources: Parties = ()
    targets: Annotated[Parties, Field(min_length=1)]
    quorum: Quorum
    cells: Cells = Cells()
    records: Annotated[dict[Slug, AtLeastOne] | None, Field(max_length=2 * MOST_PARTIES)] = None
    chosen: Chosen | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        return with_quorum(data)

    @model_validator(mode="after")
    def _obey_the_rules(self) -> Study:
        for finding in findings({name: getattr(self, name) for name in type(self).model_fields}):
            raise refusal(finding.cause, finding.fix)
        return self

    @classmethod
    def from_yaml(cls, text: str, records: Mapping[str, int] | None = None) -> Study:
        """A study from its file, or `StudyInvalid` with every problem, each with its line.

        `records` are public counts that stand in for those of the file.
        """
        document = Document.read(text)
        if records and isinstance(document.data, Mapping):
            document.data = {**document.data, "records": {**(document.data.get("records") or {}), **records}}
        return cls._from_document(document)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Study:
        """A study from plain values, or `StudyInvalid` with every problem."""
        return cls._from_document(Document(data))

    @classmethod
    def from_canonical(cls, data: bytes | str) -> Study:
        """A study from its canonical form, and from no other."""
        study = cls.from_data(read_canonical(data, MOST_STUDY_BYTES))
        if study.canonical() != (data.encode() if isinstance(data, str) else data):
            raise InvalidMessage("The study is not in its canonical form.", "Send what `canonical()` gives.")
        return study

    @classmethod
    def _from_document(cls, document: Document) -> Study:
        data = with_quorum(document.data)
        if not isinstance(data, Mapping):
            document.problem((), "This is not a study.", "Write a mapping of sections, starting with `id: my-study`.")
            raise StudyInvalid(document.problems)
        if asks_for_auto(data):
            sections = _read_sections(document, _without_method(data), later=("method",))
            _refuse(document, [*findings(sections), *auto_findings(data, sections)])
            data = {**data, **chosen(sections)}
        _refuse(document, findings(_read_sections(document, data)))
        return cls.model_validate(data)

    @property
    def schema(self) -> Schema:  # type: ignore[override]  # pydantic's own `schema` is long deprecated
        """The feature schema, in the order of the columns."""
        return _schema(self.features)

    @property
    def terms(self) -> Terms:
        """What its method is told of it."""
        return terms_of(
            self.schema, self.encoding, self.groups, self.epsilon, self.cells, len(self.sources), self.quorum.sources
        )

    def to_yaml(self) -> str:
        """The study as a file, defaults written out."""
        data = _named_first(self.model_dump(mode="json", exclude_none=True))
        return yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)

    def canonical(self) -> bytes:
        """The one byte string of this study."""
        return canonical(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical form: how messages name this study."""
        return sha256(self.canonical())


def example() -> str:
    """The text of a small study, to start from."""
    return files("crossward.study").joinpath("example.yaml").read_text(encoding="utf-8")


def with_quorum(data: Any) -> Any:
    """Without a quorum all sources must have released."""
    if not isinstance(data, Mapping):
        return data
    quorum, sources = data.get("quorum", {}), data.get("sources", ())
    if not isinstance(quorum, Mapping) or "sources" in quorum or not isinstance(sources, list | tuple):
        return data
    return {**data, "quorum": {**quorum, "sources": len(sources)}}


def _without_method(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != "method"}


def _refuse(document: Document, found: Iterable[StudyFinding]) -> None:
    """Raise with everything that is wrong, in the order of the file; nothing happens where nothing is."""
    for finding in found:
        document.problem(*finding)
    if document.problems:
        raise StudyInvalid(sorted(document.problems, key=lambda problem: (problem.line or 0, problem.field)))


def _named_first(value: Any) -> Any:
    """Mappings with what they are ahead of what they have."""
    if isinstance(value, list):
        return [_named_first(item) for item in value]
    if not isinstance(value, dict):
        return value
    heads = [key for key in ("kind", "name") if key in value]
    return {key: _named_first(value[key]) for key in [*heads, *(key for key in value if key not in heads)]}


@lru_cache(maxsize=32)
def _schema(features: tuple[StudyFeature, ...]) -> Schema:
    """Kept by value, not on the study: a copy with other fields must not inherit what its original had worked out."""
    return Schema(tuple(feature.feature() for feature in features))


@cache
def _readers() -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(Study, include_extras=True)
    return {name: TypeAdapter(hints[name]) for name in Study.model_fields}


def _read_sections(document: Document, data: Mapping[str, Any], later: Container[str] = ()) -> dict[str, Any]:
    """The sections that can be read; what is wrong with the others is noted in the document, unless they come later."""
    sections: dict[str, Any] = {}
    for name in data.keys() - Study.model_fields.keys():
        document.problem((name,), f"{name!r} is not known here.", instead(str(name), Study.model_fields))
    for name, field in Study.model_fields.items():
        if name in data:
            try:
                sections[name] = _readers()[name].validate_python(data[name])
            except ValidationError as error:
                explain(document, error, name)
        elif field.is_required() and name not in later:
            document.problem((name,), "It is missing.", f"Add {name!r}.")
        elif not field.is_required():
            sections[name] = field.get_default()
    return sections


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
