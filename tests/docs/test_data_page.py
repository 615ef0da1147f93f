"""The page on connecting data: its examples are read by the code that they are written for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from crossward_site.data.mapping import ColumnMap, DataMap
from crossward_site.data.places import Connection
from crossward_site.data.units import SUBSTANCES

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_mapping_is_one_and_names_every_entry() -> None:
    [text] = [block for block in BLOCKS if block.startswith("person:")]
    mapping = DataMap.from_data(yaml.safe_load(text))
    assert mapping.model_fields_set == set(DataMap.model_fields)
    named = {
        name for entry in (*mapping.features.values(), *mapping.labels.values()) for name in entry.model_fields_set
    }
    assert named | {"offset"} == set(ColumnMap.model_fields)
    assert all(substance in text for substance in SUBSTANCES)


def test_the_settings_are_ones() -> None:
    [text] = [block for block in BLOCKS if block.startswith("[data_roots]")]
    settings = tomllib.loads(text)
    assert set(settings) == {"data_roots", "data_connections"}
    for connection in settings["data_connections"].values():
        Connection.model_validate(connection)
