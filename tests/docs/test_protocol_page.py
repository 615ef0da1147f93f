"""The page of the protocol says what the code does: bounds, names, types, fields."""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from crossward import values
from crossward.privacy import output
from crossward.privacy.mechanisms import MECHANISMS
from crossward.protocol import constants, messages, versions
from crossward.protocol.certificate import (
    Certificate,
    CertifiedCharge,
    CertifiedParty,
    CertifiedRelease,
    SignedCertificate,
)
from crossward.protocol.constants import DeclineReason, TaskKind
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward.protocol.ledger.lines import Body
from crossward.protocol.messages import ModelMessage, Receipt
from crossward.protocol.tasks import DeclineMessage, HeartbeatMessage, ResultMessage, TaskMessage
from crossward.study import Study
from crossward_service.http import signing

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()


def section(title):
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found.group(1)


def number(text):
    """A bound as the page writes it."""
    text = text.removeprefix("below ").replace(",", "").split(" ms")[0].removesuffix(" s").strip()
    if text.endswith(" MiB"):
        return int(text.removesuffix(" MiB")) << 20
    power = re.fullmatch(r"(\d+)\^(\d+)( - 1)?", text)
    return int(power[1]) ** int(power[2]) - bool(power[3]) if power else int(text)


BOUNDS = re.findall(r"^\| .+? \| (.+?) \| (`.+?`) \|$", section("Bounds"), re.MULTILINE)


def constant(name):
    homes = (constants, messages, output, values, signing)
    found = {getattr(home, name) for home in homes if hasattr(home, name)}
    assert len(found) == 1, name
    return found.pop()


@pytest.mark.parametrize(("bound", "names"), BOUNDS)
def test_bounds_are_those_of_the_code(bound, names):
    written = bound.split(" to ")
    for text, name in zip(written, re.findall(r"`(\w+)`", names), strict=True):
        assert number(text) == constant(name), name


def test_every_bound_is_there():
    named = {name for _, names in BOUNDS for name in re.findall(r"`(\w+)`", names)}
    bounds = {name for name in vars(constants) if name.startswith("MOST_")} | {"LATEST", "LINE_BYTES", "CELLS"}
    assert bounds <= named
    assert len(BOUNDS) == 17


def test_the_version_is_the_newest():
    assert f"version **{versions.newest()}**" in PAGE


@pytest.mark.parametrize("kind", [SignedRelease, SignedReceipt, SignedCertificate])
def test_payload_types(kind):
    assert f"`{kind.payload_type}`" in section("Envelopes")


def test_names_have_the_forms_of_the_code():
    names = section("Names and numbers")
    for form in (constants.DIGEST, constants.KEY_ID, constants.PUBLIC_KEY, constants.TASK_ID, values.SLUG):
        assert f"`{form}`" in names
    assert ", ".join(f"`{kind}`" for kind in TaskKind) in names


@pytest.mark.parametrize(
    ("title", "models"),
    [
        ("Release", [ModelMessage]),
        ("Receipt", [Receipt]),
        ("Certificate", [Certificate, CertifiedParty, CertifiedRelease, CertifiedCharge]),
        ("Messages", [TaskMessage, ResultMessage, HeartbeatMessage, DeclineMessage]),
        ("The study", [Study]),
    ],
)
def test_every_field_is_described(title, models):
    told = set(re.findall(r"`(\w+)`", section(title)))
    for model in models:
        assert set(model.model_fields) <= told, model


def test_every_kind_of_line_has_its_fields_and_its_rule():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section("The ledger"), re.MULTILINE))
    rules = re.findall(r"^- `(\w+)`: ", section("The ledger").split("**Filters.**")[0], re.MULTILINE)
    assert rules == [body.kind for body in get_args(Body)]
    for body in get_args(Body):
        told = re.sub(r"\([^)]*\)", "", rows[body.kind])  # without what is said of the values
        assert set(re.findall(r"`(\w+)`", told)) == {field.name for field in fields(body)}, body


def test_reasons_and_mechanisms_are_all_there():
    assert ", ".join(f"`{reason}`" for reason in DeclineReason) in section("Messages")
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.+?) \| \[page\]", section("Release"), re.MULTILINE))
    assert rows.keys() == MECHANISMS.keys()
    for name, mechanism in MECHANISMS.items():
        assert set(mechanism._own()) <= set(re.findall(r"`(\w+)`", rows[name])), name
