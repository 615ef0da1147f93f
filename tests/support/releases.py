"""Releases of every mechanism, drawn from the types of its fields, and every small change that one can suffer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from crossward.privacy.mechanisms import MECHANISMS
from crossward.privacy.release import Release, parallel, sequential

COMMON = frozenset(item.name for item in fields(Release))
"""What every release says."""

UNITS = {"epsilon": 2e-9, "delta": 2e-18}
"""Two of what costs are counted in: a smaller change may be none."""

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    NoneType: st.none(),
    bool: st.booleans(),
    int: st.integers(2, 2**53 - 2),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=8),
}


def own_fields(mechanism: type[Release]) -> list[str]:
    """The fields that a mechanism adds to those of every release."""
    return [item.name for item in fields(mechanism) if item.name not in COMMON]


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that a release may hold; a type that it may not is a KeyError."""
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return st.one_of([values(choice) for choice in get_args(hint)])
    if get_origin(hint) is tuple:
        item, dots = get_args(hint)
        assert dots is ...
        return st.lists(values(item), max_size=3).map(tuple)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{item.name: values(hints[item.name]) for item in fields(hint)})
    return _PLAIN[hint]


def releases_of(mechanism: type[Release], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any private release of a mechanism, by this code; `given` are fields that are to be otherwise."""
    hints = get_type_hints(mechanism)
    common = {
        "epsilon": st.floats(0, 10),
        "delta": st.sampled_from([0.0, 1e-6, 1e-9]),
        "seeded": st.booleans(),
    }
    own = {name: values(hints[name]) for name in own_fields(mechanism)}
    return st.builds(mechanism, **common | own | given)


def releases() -> st.SearchStrategy[Release]:
    """Any release of any mechanism, or several of them composed."""
    return st.recursive(
        st.one_of([releases_of(mechanism) for mechanism in MECHANISMS.values()]),
        lambda inner: st.builds(
            lambda how, method, parts: how(method, *parts),
            st.sampled_from([parallel, sequential]),
            st.text(max_size=8),
            st.lists(inner, min_size=1, max_size=3),
        ),
        max_leaves=4,
    )


def changes(value: Any, hint: Any) -> Iterator[Any]:
    """The same value with one thing in it changed, as little as can be: for every thing there is to change."""
    if is_dataclass(value):
        hints = get_type_hints(type(value))
        for item in fields(value):
            if isinstance(value, Release) and item.name in UNITS:
                yield replace(value, **{item.name: getattr(value, item.name) + UNITS[item.name]})
                continue
            for other in changes(getattr(value, item.name), hints[item.name]):
                yield replace(value, **{item.name: other})
    elif get_origin(hint) in (Union, UnionType):
        (choice,) = set(get_args(hint)) - {NoneType}
        yield from (_some(choice),) if value is None else (None, *changes(value, choice))
    elif isinstance(value, tuple):
        yield from _changes_of_a_tuple(value, get_args(hint)[0])
    elif get_origin(hint) is Literal:
        yield from (choice for choice in get_args(hint) if choice != value)
    else:
        yield _next(value)


def _changes_of_a_tuple(value: tuple[Any, ...], hint: Any) -> Iterator[tuple[Any, ...]]:
    yield (*value, _some(hint))
    for index, item in enumerate(value):
        before, after = value[:index], value[index + 1 :]
        yield before + after
        yield from ((*before, other, *after) for other in changes(item, hint))


def _some(hint: Any) -> Any:
    if get_origin(hint) is tuple:
        return ()
    if get_origin(hint) in (Union, UnionType):
        return _some(get_args(hint)[0])
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{item.name: _some(hints[item.name]) for item in fields(hint)})
    return hint()


def _next(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return math.nextafter(value, 0.0) if value else 1.0
    return value + "x"
