"""The files that a person hands to a command."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossward.errors import InvalidSetting, StorageFailed

if TYPE_CHECKING:
    from crossward.study import Study

RECORDS = 'a CSV, or JSON: one record {"age": 61, ...}, a list of them, {"record": ...} or {"records": [...]}'


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(
            f"{path} cannot be read: {error}.", "Is the path right, and the file UTF-8 text?"
        ) from error


def read_bytes(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error.strerror}.", "Give a file that is there.") from None


def read_study(path: Path) -> Study:
    """The study of a file; every problem at once, each with its line and field."""
    from crossward.study import Study

    return Study.from_yaml(read_text(path))


def read_mapping(path: Path) -> dict[str, Any]:
    """A YAML file that holds names and values."""
    import yaml

    try:
        content = _yaml_with_plain_names(read_text(path))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        words = getattr(error, "problem", None) or "it is not YAML"
        fix = "Mend the YAML: brackets and quotes are closed, names end with a colon and a blank."
        raise InvalidSetting(f"{path}{line} cannot be read: {words}.", fix) from None
    if not isinstance(content, dict):
        raise InvalidSetting(f"{path} does not hold names and values.", "Give a YAML mapping.")
    return content


def _yaml_with_plain_names(text: str) -> Any:
    """YAML whose names are texts as they are written: to YAML alone, `no` is false and `01` is 1."""
    import yaml

    def plain(loader: yaml.SafeLoader, node: yaml.MappingNode) -> Any:
        for name, _ in node.value:
            if isinstance(name, yaml.ScalarNode) and name.tag != "tag:yaml.org,2002:merge":
                name.tag = "tag:yaml.org,2002:str"
        return loader.construct_yaml_map(node)

    class Loader(yaml.SafeLoader):
        """With plain names."""

    Loader.add_constructor("tag:yaml.org,2002:map", plain)
    loader = Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def read_records(path: Path) -> list[dict[str, Any]] | str:
    """The text of a CSV, for the site to read; or records of JSON in any form that a person may have at hand."""
    content: Any
    try:
        if path.suffix.lower() == ".csv":
            return _csv_text(path.read_bytes())
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"{path} cannot be read: {error}", f"Give {RECORDS}.") from None
    if isinstance(content, dict) and isinstance(content.get("records"), list):
        content = content["records"]
    elif isinstance(content, dict):  # `crossward study example` writes {"study", "record"}
        content = [content["record"] if isinstance(content.get("record"), dict) else content]
    if not isinstance(content, list) or not content or not all(_is_record(one) for one in content):
        raise InvalidSetting(f"{path} does not hold records.", f"Give {RECORDS}.")
    return content


def _csv_text(data: bytes) -> str:
    """A CSV as a text. UTF-16 is known by its mark; what is not UTF-8 comes from an old spreadsheet, most likely."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252")


def _is_record(content: Any) -> bool:
    """Whether this is names and single values."""
    return (
        isinstance(content, dict)
        and bool(content)
        and all(isinstance(name, str) for name in content)
        and all(
            value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
            for value in content.values()
        )
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What keeps a file or folder from being written, in our words."""
    try:
        yield
    except OSError as error:
        raise StorageFailed(
            f"{path} cannot be written: {error.strerror}.", "Is the path right, and the folder yours to write in?"
        ) from error
