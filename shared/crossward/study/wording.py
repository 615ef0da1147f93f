"""Pydantic's refusals in the words of a study: where in the file, the cause, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from crossward.methods import METHODS
from crossward.methods.borrowing import LEARNERS
from crossward.methods.settings import BY_RECORDS, FIXED, LambdaByRecords
from crossward.study import sections
from crossward.study.document import Document, Path
from crossward.study.features import KINDS, Label

_SECTIONS = {
    "label": Label,
    "groups": sections.Groups,
    "encoding": sections.Encoding,
    "epsilon": sections.Epsilon,
    "quorum": sections.Quorum,
    "cells": sections.Cells,
    "start": sections.Start,
    "chosen": sections.Chosen,
}

_WANTED = {
    "string_type": "a text",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    "model_type": "a mapping of settings",
    "model_attributes_type": "a mapping of settings",
    "dict_type": "a mapping of settings",
}

_LIMITS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}


def explain(document: Document, error: ValidationError, section: str) -> None:
    """Add every error of a section to the document's problems."""
    details = error.errors(include_url=False)
    for detail in details:
        inner = [other["loc"][: len(detail["loc"])] for other in details if other is not detail]
        if detail["type"] == "too_short" and detail["loc"] in inner:
            continue  # items that could not be read were not counted; they speak for themselves
        loc = (section, *detail["loc"])
        path = _without_tags(loc)
        chooser = (*path, str(detail.get("ctx", {}).get("discriminator", "")).strip("'"))
        path = chooser if detail["type"] == "union_tag_invalid" and chooser in document.lines else path
        document.problem(path, *_words(detail, path, document))


def _without_tags(loc: Path) -> Path:
    """Pydantic names the chosen member of a union in its path; a file has no such key."""
    path: list[str | int] = []
    for index, part in enumerate(loc):
        before = loc[:index]
        tagged = (len(before) == 2 and before[0] == "features" and part in KINDS) or (
            str(before[-1:]).startswith("('lam") and part in (FIXED, BY_RECORDS)
        )
        if not tagged:
            path.append(part)
    return tuple(path)


def _words(  # noqa: PLR0911 - one return per kind of refusal
    detail: ErrorDetails, path: Path, document: Document
) -> tuple[str, str]:
    kind, context = detail["type"], detail.get("ctx", {})
    given = detail["input"]
    if kind == "crossward":
        return context["cause"], context["fix"]
    if kind == "missing":
        return "It is missing.", f"Add {path[-1]!r}."
    if kind == "extra_forbidden":
        return f"{path[-1]!r} is not known here.", instead(str(path[-1]), _known(path, document))
    if kind in _WANTED:
        return _misread(given, _WANTED[kind], document.written.get(path))
    if kind in _LIMITS:
        key, word = _LIMITS[kind]
        return f"It is {given!r}.", f"Give a number {word} {context[key]:g}."
    if kind in ("literal_error", "union_tag_invalid", "union_tag_not_found"):
        return _choice(kind, given, context)
    if kind == "string_pattern_mismatch":
        return f"{given!r} is not an identifier.", "Use small letters, digits and single dashes, such as heart-2026."
    if kind in ("too_short", "string_too_short"):
        return "There is too little of it.", f"Give at least {context['min_length']}."
    if kind in ("too_long", "string_too_long"):
        return "There is too much of it.", f"Give at most {context['max_length']}."
    return f"{detail['msg']}.", "Correct it."


def _misread(given: Any, wanted: str, written: str | None) -> tuple[str, str]:
    """`no` where a text is wanted: YAML made it False before anyone could ask."""
    if wanted == "a text" and written is not None and given is not None and not isinstance(given, str):
        kind = "true or false" if isinstance(given, bool) else f"a {type(given).__name__}"
        return f"YAML reads {written} as {kind}, and a text is needed.", f'Put it in quotes: "{written}".'
    return f"It is {_short(given)}.", f"Give {wanted}."


def _choice(kind: str, given: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    key = str(context.get("discriminator", "")).strip("'")
    if kind == "union_tag_not_found":
        return f"It has no {key!r}.", f"Add {key!r}."
    listed = context.get("expected_tags") or context.get("expected", "")
    tags = [tag.strip(" '") for tag in str(listed).replace(" or ", ", ").split(",")]
    word = context.get("tag", given)
    return f"{word!r} is not one of the choices.", instead(str(word), tags)


def instead(word: str, known: Iterable[str]) -> str:
    """What may stand here, the likeliest first."""
    names = list(known)
    close = difflib.get_close_matches(word.lower(), names, n=1)
    listed = ", ".join(names)
    return f"Did you mean {close[0]!r}? Known are {listed}." if close else f"Known are {listed}."


def _known(path: Path, document: Document) -> Iterable[str]:
    """The keys of the section that holds an unknown one."""
    holder = path[:-1]
    chosen = document.value(holder)
    name = chosen.get("name") if isinstance(chosen, Mapping) else None
    if holder[-1:] == ("learner",):
        model: Any = LEARNERS.get(str(name))
    elif holder == ("method",):
        model = METHODS.get(str(name))
    elif holder[:1] == ("features",) and isinstance(chosen, Mapping):
        model = KINDS.get(str(chosen.get("kind")))
    elif str(holder[-1]).startswith("lam"):
        model = LambdaByRecords
    else:
        model = _SECTIONS.get(str(holder[-1]))
    return () if model is None else list(model.model_fields)


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:57]}..."
