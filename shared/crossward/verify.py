#!/usr/bin/env python3
"""Verifies what the parties of a Crossward study signed: one file, offline, written from the page `protocol.md` alone.

    python verify.py bundle FOLDER --key KEY

It checks the bytes it is given. Nothing is read, written anew and then compared: canonical form is told from the
tokens as they lie there, and every digest and every signature is over received bytes. Every check is said; the first
that fails in a part is named. Exit code 0: verified, 1: not verified, 2: called wrongly.

The order is the page's: canonical form, forms of fields, the tables, envelopes, release, receipt, certificate, ledger,
bundle; then the command line.
"""

import argparse
import base64
import binascii
import contextlib
import datetime
import decimal
import hashlib
import io
import itertools
import json
import math
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

VERSION = 1  # of the protocol: the only one that this verifier reads

LARGEST = 2**53 - 1  # a whole number beyond it travels as a text
MOST_NANO_EPSILON = 10**15
MOST_ATTO_DELTA = 10**18
MOST_BUDGET_NANO_EPSILON = 10**11
MOST_BUDGET_ATTO_DELTA = 10**15
MOST_COLUMNS = 10_000
MOST_PARTIES = 1_000
MOST_CELLS = 1_000
MOST_BYTES = 32 * 2**20  # of a payload
ENVELOPE_BYTES = 64 * 2**20
LINE_BYTES = 65_536  # of a ledger line
STUDY_BYTES = 4_000_000
LATEST = 10**14

# The page bounds neither of these; without a bound a hostile file could fill the memory.
LEDGER_BYTES = 64 * 2**20
MOST_NESTING = 64
MOST_VALUES = 1_000_000  # objects, lists and texts of one document

NOTHING = "0" * 64  # the hash before a ledger's first line
COORDINATOR = "coordinator"
FOR_PEOPLE = ("README.txt", "certificate.txt", "verify.py")

P = ParamSpec("P")
T = TypeVar("T")
Value = Any  # what JSON holds: None, bool, int, float, str, list or dict


# --- The report -------------------------------------------------------------------------------------------------------


class Bad(Exception):
    """Something is not as the page says: why, and where (a path of fields, or empty)."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(f"{path}: {why}" if path else why)
        self.why, self.path = why, path

    def under(self, step: str) -> "Bad":
        """The same, seen from one level further out."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        return Bad(self.why, step + joint + self.path)


class Stop(Exception):
    """A check of a part failed; the rest of that part is not looked at."""


class Usage(ValueError):
    """Called wrongly: a key that is none, a file that cannot be read."""


@dataclass(frozen=True)
class Check:
    """One check: of which part, its name, whether it holds, and what was seen."""

    part: str
    check: str
    ok: bool
    detail: str


@dataclass
class Report:
    """All checks made, in order; once all hold, what the document says."""

    checks: list[Check] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    @property
    def verified(self) -> bool:
        """Whether something was checked and all of it holds."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def failure(self) -> str | None:
        """The first failed check and why, and which other parts failed; None if none did."""
        failed = [check for check in self.checks if not check.ok]
        others = sorted({check.part for check in failed[1:]})
        also = f" (also: {', '.join(others[:20])}{', ...' if others[20:] else ''})" if others else ""
        return f"{failed[0].part}: {failed[0].check}: {failed[0].detail}{also}" if failed else None


@dataclass(frozen=True)
class Part:
    """Notes the checks of one part in the report."""

    report: Report
    name: str

    def note(self, check: str, ok: bool, detail: str) -> None:
        """Note the outcome of a check."""
        self.report.checks.append(Check(self.name, check, ok, detail))

    def run(self, check: str, detail: str, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a check, which raises Bad if it fails; then the rest of the part is left."""
        try:
            result = action(*args, **kwargs)
        except Bad as bad:
            self.note(check, False, str(bad))
            raise Stop from None
        self.note(check, True, detail)
        return result


def need(holds: bool, why: str, path: str = "") -> None:
    """Bad unless it holds."""
    if not holds:
        raise Bad(why, path)


def brief(value: Value) -> str:
    """A received value in a message: short, whatever it is."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    value = value[:100] + "..." * (len(value) > 100) if isinstance(value, str) else value
    return json.dumps(value, ensure_ascii=False)


def printable(text: str) -> str:
    """A text for a terminal: what would steer it, or not be seen, is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


# --- Canonical form ---------------------------------------------------------------------------------------------------

TEXT = re.compile(rb'"((?:[^"\\\x00-\x1f]++|\\(?:["\\btnfr]|u00(?:0[0-7bef]|1[0-9a-f])))*+)"')
NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+")
WHOLE = re.compile(rb"0|-?[1-9][0-9]{0,15}")
WHOLES = re.compile(rb"(?:(?:0|-?[1-9][0-9]{0,14}),){1,10000}+")
WORDS = {b"t": (b"true", True), b"f": (b"false", False), b"n": (b"null", None)}
LONGEST_NUMBER = 25  # no double is spelled with more characters


def spelled(double: float) -> str:
    """How ECMAScript writes a double that is not zero."""
    mantissa, _, power = repr(abs(double)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    figures = (whole + fraction).lstrip("0")
    point = len(figures) - len(fraction) + int(power or 0)  # the value is 0.figures * 10^point
    figures = figures.rstrip("0")
    if 0 < point <= 21:
        text = figures[:point].ljust(point, "0") + ("." + figures[point:]) * (len(figures) > point)
    elif -6 < point <= 0:
        text = "0." + "0" * -point + figures
    else:
        text = figures[0] + ("." + figures[1:]) * (len(figures) > 1) + f"e{point - 1:+d}"
    return "-" * (double < 0) + text


class Reader:
    """Reads one canonical document token by token, and refuses at the first token that is not canonical.

    `spans` has the place of each field of the outermost object, so that its bytes can be hashed as they came.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.values = data, 0, 0
        self.spans: dict[str, tuple[int, int]] = {}

    def document(self) -> Value:
        """The one value that the bytes hold."""
        if self.data.startswith(b"\xef\xbb\xbf"):
            self.refuse("a byte order mark")
        value = self.value(0)
        if self.at != len(self.data):
            self.refuse("something follows the document")
        return value

    def refuse(self, why: str) -> NoReturn:
        """Refuse the document at this place."""
        raise Bad(f"{why}, at byte {self.at:,} of {len(self.data):,}")

    def value(self, depth: int) -> Value:
        """Any value."""
        first = self.data[self.at : self.at + 1]
        if first == b'"':
            return self.text()
        if first in WORDS:
            word, value = WORDS[first]
            self.need(word)
            return value
        if first not in (b"{", b"["):
            return self.number()
        if depth == MOST_NESTING:
            self.refuse(f"nested deeper than {MOST_NESTING}")
        self.count()
        self.at += 1
        return self.object(depth + 1) if first == b"{" else self.list(depth + 1)

    def object(self, depth: int) -> dict[str, Value]:
        """The rest of an object: its keys ascend by their UTF-16 code units."""
        found: dict[str, Value] = {}
        last = b""
        while not (self.take(b"}") if not found else self.ends(b"}")):
            key = self.text()
            order = key.encode("utf-16-be")
            if found and order <= last:
                self.refuse(f"the key {brief(key)} is {'given twice' if key in found else 'out of order'}")
            last = order
            self.need(b":")
            start = self.at
            found[key] = self.value(depth)
            if depth == 1:
                self.spans[key] = (start, self.at)
        return found

    def list(self, depth: int) -> list[Value]:
        """The rest of a list; runs of plain whole numbers, the bulk of a model, are taken at once."""
        found: list[Value] = []
        while not (self.take(b"]") if not found else self.ends(b"]")):
            while run := WHOLES.match(self.data, self.at):
                found += map(int, run[0][:-1].split(b","))
                self.at = run.end()
            found.append(self.value(depth))
        return found

    def text(self) -> str:
        """A text, with no escape but those that must be."""
        match = TEXT.match(self.data, self.at)
        if match is None:
            self.refuse("not a text in its one spelling")
        self.count()
        try:
            text = match[1].decode("utf-8")
        except UnicodeDecodeError as error:
            self.at += 1 + error.start
            self.refuse("not UTF-8")
        self.at = match.end()
        return str(json.loads(f'"{text}"')) if "\\" in text else text

    def number(self) -> int | float:
        """A number: an int where it is whole and at most 2^53 - 1 in size, else the double it is."""
        match = NUMBER.match(self.data, self.at)
        if match is None:
            self.refuse("not JSON")
        raw = match[0]
        value: int | float = 0
        if WHOLE.fullmatch(raw) and abs(int(raw)) <= LARGEST:
            value = int(raw)
        else:
            value = float(raw) if len(raw) <= LONGEST_NUMBER else 0
            if not value or not math.isfinite(value) or spelled(value).encode() != raw:
                self.refuse(f"a number that is not in its one spelling: {brief(raw[:101].decode())}")
        self.at = match.end()
        return value

    def take(self, token: bytes) -> bool:
        """Whether this token comes next; if so it is read."""
        found = self.data.startswith(token, self.at)
        self.at += len(token) * found
        return found

    def ends(self, bracket: bytes) -> bool:
        """Whether the bracket closes here; if not, a comma is read."""
        if self.take(bracket):
            return True
        self.need(b",")
        return False

    def need(self, token: bytes) -> None:
        """This token must come next."""
        if not self.take(token):
            self.refuse(f"not JSON without blanks: no {token.decode()}")

    def count(self) -> None:
        """One more object, list or text."""
        self.values += 1
        if self.values > MOST_VALUES:
            self.refuse(f"more than {MOST_VALUES:,} objects, lists and texts")


# --- Forms of fields: a form raises Bad for a value that is not of it -------------------------------------------------

Form = Callable[[Value], None]


def form(holds: Callable[[Value], bool], name: str) -> Form:
    """The values for which this holds."""

    def check(value: Value) -> None:
        if not holds(value):
            raise Bad(f"{brief(value)} is not {name}")

    return check


def spelling(pattern: str, name: str) -> Form:
    """A text that matches."""
    matches = re.compile(pattern).fullmatch
    return form(lambda value: isinstance(value, str) and matches(value) is not None, name)


def one_of(*names: str) -> Form:
    """One of these texts."""
    return form(lambda value: isinstance(value, str) and value in names, " or ".join(names))


def whole(least: int, most: int = LARGEST) -> Form:
    """A whole number within bounds."""
    return form(lambda value: type(value) is int and least <= value <= most, f"a whole number from {least} to {most}")


def large(least: int, most: int) -> Form:
    """A whole number that beyond 2^53 - 1 is a text of digits, and only then."""

    def holds(value: Value) -> bool:
        if isinstance(value, str):
            return bool(re.fullmatch("[1-9][0-9]{15,18}", value)) and max(least, LARGEST + 1) <= int(value) <= most
        return type(value) is int and least <= value <= most

    return form(holds, f"a whole number from {least} to {most}, as a text if beyond 2^53 - 1")


def or_null(some: Form) -> Form:
    """null, or of this form."""

    def check(value: Value) -> None:
        if value is not None:
            some(value)

    return check


def items(each: Form, least: int = 0, most: int = LARGEST, once: bool = False) -> Form:
    """A list of this form, within bounds; with `once`, nothing in it twice."""

    def check(value: Value) -> None:
        need(isinstance(value, list), f"{brief(value)} is not a list")
        need(least <= len(value) <= most, f"has {len(value):,} items, not {least:,} to {most:,}")
        for index, item in enumerate(value):
            try:
                each(item)
            except Bad as bad:
                raise bad.under(f"[{index}]") from None
        need(not once or len(set(value)) == len(value), "has something twice")

    return check


def fields(forms: dict[str, Form]) -> Form:
    """An object with exactly these fields."""

    def check(value: Value) -> None:
        need(isinstance(value, dict), f"{brief(value)} is not an object")
        for name in value:
            need(name in forms, "a field that is unknown", name[:100])
        for name, each in forms.items():
            need(name in value, "is missing", name)
            try:
                each(value[name])
            except Bad as bad:
                raise bad.under(name) from None

    return check


def exists(time: Value) -> bool:
    """Whether a text is a moment in UTC, spelled with six decimals."""
    if not isinstance(time, str) or not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[.][0-9]{6}Z", time):
        return False
    try:
        return bool(datetime.datetime.strptime(time, "%Y-%m-%dT%H:%M:%S.%f%z"))
    except ValueError:
        return False


def exponent(grid: float) -> int:
    """The binary logarithm of a power of two."""
    return math.frexp(grid)[1] - 1


def is_number(value: Value) -> bool:
    """Whether it is a number; true and false are none."""
    return type(value) in (int, float)


# --- The page's tables ------------------------------------------------------------------------------------------------

ANYTHING = form(lambda _: True, "anything")  # where the page gives no type
TRUTH = form(lambda value: isinstance(value, bool), "true or false")
TEXTS = form(lambda value: isinstance(value, str), "a text")
NUMBERS = form(is_number, "a number")
DIGEST = spelling("[0-9a-f]{64}", "a digest of 64 hex digits")
HEX16 = spelling("[0-9a-f]{16}", "16 hex digits")
PUBLIC_KEY = spelling("[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]", "a public key of 43 base64url characters")
NAME = spelling("(?=.{1,64}$)[a-z0-9]+(?:-[a-z0-9]+)*+", "a name such as branch-1")
TASK = spelling("[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", "a task's id")
LEDGER_NAME = spelling("[!-~]{1,200}", "a ledger name")
TIME = form(exists, "a time YYYY-MM-DDTHH:MM:SS.ffffffZ that exists")
BASE64 = spelling("[A-Za-z0-9+/]*+={0,2}", "base64")
CODE = spelling("[0-9A-Za-z.+-]{1,32}", "a version of code")
KIND = one_of("train-source", "aggregate", "train-target")
NEIGHBOURS = one_of("replace-one-record")
VERSION_1 = whole(VERSION, VERSION)
RECORDS = whole(0)
INPUTS = items(DIGEST, 0, MOST_PARTIES, once=True)
COST = {"nano_epsilon": whole(1, MOST_NANO_EPSILON), "atto_delta": large(0, MOST_ATTO_DELTA - 1)}
CHARGE = {"nano_epsilon": whole(1, MOST_NANO_EPSILON), "atto_delta": large(0, MOST_ATTO_DELTA)}
HEAD = fields({"hash": DIGEST, "sequence": whole(0)})

SIGNATURE = fields({"keyid": HEX16, "sig": BASE64})
ENVELOPE = fields({"payload": BASE64, "payloadType": TEXTS, "signatures": items(SIGNATURE, 1, 1)})

VECTOR = fields({"grid": whole(-900, 900), "steps": items(whole(1 - 2**52, 2**52 - 1), 1, MOST_COLUMNS + 1)})
GRID = form(
    lambda value: is_number(value) and math.frexp(value)[0] == 0.5 and -900 <= exponent(value) <= 900,
    "a power of two from 2^-900 to 2^900",
)
BALL = fields({
    "q": NUMBERS, "radius": NUMBERS, "intercept": NUMBERS, "offset": NUMBERS,
    "columns": or_null(items(whole(0, MOST_COLUMNS - 1), 0, MOST_COLUMNS)),
    "scale": or_null(items(NUMBERS, 0, MOST_COLUMNS)),
})  # fmt: skip
MODEL = {"ball": BALL, "dimension": whole(1, MOST_COLUMNS + 1), "lam": NUMBERS, "grid": GRID}
GROUP = fields({**MODEL, "pull": or_null(HEX16), "extra": NUMBERS})


def parameters(more: str, **forms: Form) -> Form:
    """The parameters of a mechanism; `more` names those whose type the page does not give."""
    return fields({"n": RECORDS, **forms, **dict.fromkeys(more.split(), ANYTHING)})


MECHANISMS = {
    "objective-perturbation": parameters(
        "", loss=TEXTS, jacobian=TEXTS, tolerance=NUMBERS, groups=items(GROUP, 1, MOST_COLUMNS + 1),
        epsilon_objective=NUMBERS, epsilon_output=NUMBERS, epsilon_prime=NUMBERS,
    ),
    "amp": parameters("ridge sigma_objective sigma_output", **MODEL, loss=TEXTS, tolerance=NUMBERS),
    "dppsgd": parameters("weight passes batch batches projection sensitivity", **MODEL, loss=TEXTS),
    "private-auc": parameters("pairs_share"),
    "exponential-mechanism": parameters("candidates"),
    "choice-by-random-stopping": parameters("base_epsilon eta gamma candidates"),
}  # fmt: skip
DESCRIBED = {**COST, "neighbours": NEIGHBOURS, "seeded": TRUTH}


def single(value: Value) -> None:
    """The description of a single mechanism."""
    fields({**DESCRIBED, "mechanism": one_of(*MECHANISMS), "parameters": ANYTHING})(value)
    fields({**dict.fromkeys(value, ANYTHING), "parameters": MECHANISMS[value["mechanism"]]})(value)


def description(value: Value) -> None:
    """The description of a release: of a single mechanism, or a composition of such."""
    if not isinstance(value, dict) or "composition" not in value:
        return single(value)
    how = one_of("parallel", "sequential")
    return fields({**DESCRIBED, "mechanism": TEXTS, "composition": how, "parts": items(single, 1, MOST_PARTIES)})(value)


RELEASE = fields({
    "version": VERSION_1, "study_hash": DIGEST, "party": NAME, "kind": KIND, "method": NAME, "code_version": CODE,
    "n": RECORDS, "weights": items(VECTOR, 1, MOST_COLUMNS), "level1": or_null(VECTOR), "release": description,
    "inputs": INPUTS,
})  # fmt: skip
RECEIPT = fields({
    "version": VERSION_1, "party": NAME, "task": TASK, "release": or_null(DIGEST), "head": HEAD, "time": TIME,
})  # fmt: skip
ENTRY = fields({
    "party": NAME, "task": TASK, "kind": KIND,
    "outcome": one_of("done", "late", "declined", "failed", "cancelled"), "cause": TEXTS, "head": HEAD,
    "release": or_null(fields({
        "digest": DIGEST, "signed_by": HEX16, "public_key": or_null(PUBLIC_KEY), "mechanism": TEXTS, **COST,
        "neighbours": NEIGHBOURS, "code_version": CODE, "records": RECORDS, "learned_from": INPUTS,
    })),
    "charged": or_null(fields({"line": whole(1), **CHARGE})),
})  # fmt: skip
CERTIFICATE = fields({
    "version": VERSION_1, "id": TEXTS, "study": NAME, "study_hash": DIGEST, "title": TEXTS, "purpose": TEXTS,
    "method": NAME, "proofs": items(TEXTS), "outcome": one_of("complete", "failed", "cancelled"), "cause": TEXTS,
    "started": TIME, "ended": TIME, "code_version": CODE, "public_set": or_null(DIGEST),
    "parties": items(ENTRY, 0, 2 * MOST_PARTIES + 1),
})  # fmt: skip
STUDY = fields({
    "version": VERSION_1, "id": NAME, "title": TEXTS, "purpose": TEXTS, "label": ANYTHING, "features": ANYTHING,
    "groups": ANYTHING, "encoding": ANYTHING, "method": ANYTHING, "epsilon": ANYTHING, "records": ANYTHING,
    "quorum": ANYTHING, "cells": ANYTHING, "chosen": ANYTHING,
    "sources": items(NAME, 0, MOST_PARTIES, once=True), "targets": items(NAME, 0, MOST_PARTIES, once=True),
})  # fmt: skip
BODIES = {
    "open": fields({
        "version": whole(1), "cells": whole(1, MOST_CELLS), "filter": one_of("basic", "zcdp"),
        "nano_epsilon": whole(0, MOST_BUDGET_NANO_EPSILON), "atto_delta": whole(0, MOST_BUDGET_ATTO_DELTA),
    }),
    "seats": fields({"version": whole(1), "commitment": DIGEST}),
    "reserve": fields({
        "task": LEDGER_NAME, "study": LEDGER_NAME, "study_hash": DIGEST, **CHARGE,
        "cells": items(whole(0, MOST_CELLS - 1), 1, MOST_CELLS), "release": DIGEST,
    }),
    "release": fields({"task": LEDGER_NAME, "digest": DIGEST}),
    "recover": fields({"number": whole(1)}),
}  # fmt: skip
LINE = {"sequence": whole(1), "previous": DIGEST, "kind": one_of(*BODIES), "time": whole(0, LATEST), "body": ANYTHING}


# --- Documents, keys and envelopes ------------------------------------------------------------------------------------


def sha256(data: bytes) -> str:
    """The SHA-256 as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Key:
    """A public key and its id."""

    raw: bytes
    id: str

    @classmethod
    def read(cls, written: str) -> "Key":
        """A key from its 43 characters; Bad if they are not in their one spelling."""
        PUBLIC_KEY(written)
        raw = base64.urlsafe_b64decode(written + "=")
        return cls(raw, sha256(raw)[:16])

    def signed(self, signature: bytes, message: bytes) -> None:
        """Bad unless this key made the signature of the message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise Bad(f"key {self.id} did not sign these bytes", "signatures[0].sig") from None


def decoded(written: str, path: str) -> bytes:
    """The bytes of base64 in its one spelling: padded, unused bits zero."""
    body = written.rstrip("=")
    last = ("", "AEIMQUYcgkosw048", "AQgw")[len(written) - len(body)]
    need(len(written) % 4 == 0 and (not last or body[-1:] in set(last)), "is not base64 in its one spelling", path)
    return binascii.a2b_base64(written)


def fits(size: int, most: int, what: str) -> None:
    """Bad if it is too long."""
    need(size <= most, f"more than {most:,} {what}")


@dataclass(frozen=True)
class Document:
    """A document that was read: its bytes, what they hold, and where the outermost fields lie."""

    data: bytes
    value: Value
    spans: dict[str, tuple[int, int]]

    @classmethod
    def read(cls, part: Part, what: str, data: bytes) -> "Document":
        """A canonical document."""
        reader = Reader(data)
        return cls(data, part.run(what, f"{what} in canonical form", reader.document), reader.spans)

    def digest_of(self, name: str) -> str:
        """The SHA-256 of the bytes of one field."""
        start, end = self.spans[name]
        return sha256(self.data[start:end])


def open_envelope(part: Part, data: bytes, kind: str, table: Form, key: Key) -> Document:
    """The payload of an envelope that this key signed."""
    data = data.removesuffix(b"\n")
    part.run("size", f"an envelope of {len(data):,} bytes", fits, len(data), ENVELOPE_BYTES, "bytes")
    envelope = Document.read(part, "envelope", data).value
    part.run("envelope fields", "three fields, one signature", ENVELOPE, envelope)
    wanted, found = f"application/vnd.crossward.{kind}+json", envelope["payloadType"]
    part.run("payload type", wanted, need, found == wanted, f"{brief(found)} is not {wanted}", "payloadType")
    signature = envelope["signatures"][0]
    payload = part.run("payload base64", "payload in base64", decoded, envelope["payload"], "payload")
    part.run("payload size", f"a payload of {len(payload):,} bytes", fits, len(payload), MOST_BYTES, "bytes")
    signed = part.run("signature base64", "signature in base64", decoded, signature["sig"], "signatures[0].sig")
    other = f"names key {signature['keyid']}, not {key.id}"
    part.run("key id", f"names key {key.id}", need, signature["keyid"] == key.id, other, "signatures[0].keyid")
    message = b"DSSEv1 %d %s %d %s" % (len(wanted), wanted.encode(), len(payload), payload)
    part.run("signature", f"signed by key {key.id} over its {len(payload):,} bytes", key.signed, signed, message)
    document = Document.read(part, "payload", payload)
    part.run("version", f"version {VERSION} of the protocol", right_version, document.value)
    part.run("fields", f"exactly the fields of a {kind}, with their types and bounds", table, document.value)
    return document


def right_version(value: Value) -> None:
    """The version is looked at before the fields: another version has others."""
    found = value.get("version") if isinstance(value, dict) else None
    need(type(found) is int and found == VERSION, f"{brief(found)}: this verifier reads version {VERSION}", "version")


Rules = tuple[tuple[str, str, Callable[[Value], None]], ...]  # name, what holds if it holds, raises Bad if not


def follow(part: Part, rules: Rules, value: Value) -> None:
    """Run each rule."""
    for name, holds, rule in rules:
        part.run(name, holds, rule, value)


def cost(value: Value) -> tuple[int, int]:
    """Nano-epsilon and atto-delta."""
    return int(value["nano_epsilon"]), int(value["atto_delta"])


def head_holds(head: Value, party: str, path: str) -> None:
    """An empty ledger's head is 0 and zeros; the coordinator has no ledger."""
    empty = head["sequence"] == 0
    need(empty == (head["hash"] == NOTHING), "an empty ledger ends at 0 with 64 zeros, and no other does", path)
    need(empty or party != COORDINATOR, "the coordinator has no ledger", path)


def owner_holds(kind: str, party: str, path: str) -> None:
    """Only an aggregate is the coordinator's."""
    need((kind == "aggregate") == (party == COORDINATOR), f"{party} cannot have a task of kind {kind}", path)


# --- Release ----------------------------------------------------------------------------------------------------------


def mechanisms(described: Value) -> list[Value]:
    """The single mechanisms of a description."""
    return list(described["parts"]) if "composition" in described else [described]


def composition_holds(release: Value) -> None:
    """The cost and the seed mark of a composition follow from its parts."""
    described, parts = release["release"], mechanisms(release["release"])
    join = sum if described.get("composition") == "sequential" else max
    for name in ("nano_epsilon", "atto_delta"):
        follows = join([int(part[name]) for part in parts])
        need(int(described[name]) == follows, f"is {described[name]}, but {follows} by its parts", f"release.{name}")
    need(described["seeded"] == any(part["seeded"] for part in parts), "is not what its parts say", "release.seeded")


def not_seeded(release: Value) -> None:
    """Noise that others could repeat guarantees nothing."""
    need(not release["release"]["seeded"], "others could repeat its noise: there is no guarantee", "release.seeded")


def aggregate_holds(release: Value) -> None:
    """An aggregate is a composition in parallel with one part for each input."""
    if release["kind"] == "aggregate":
        described, inputs = release["release"], len(release["inputs"])
        need(described.get("composition") == "parallel", "an aggregate is composed in parallel", "release.composition")
        need(len(described["parts"]) == inputs, f"are {len(described['parts'])} for {inputs} inputs", "release.parts")


def records_hold(release: Value) -> None:
    """The records are those that the description counts."""
    counts = [part["parameters"]["n"] for part in mechanisms(release["release"])]
    counted = sum(counts) if release["release"].get("composition") == "parallel" else max(counts)
    counted = 0 if release["kind"] == "aggregate" else counted
    need(release["n"] == counted, f"is {release['n']}, but the description counts {counted}", "n")


def grids_hold(release: Value) -> None:
    """The vectors lie on the grids that the description declares, in order, and have its dimensions."""
    if release["kind"] == "aggregate":
        for index, vector in enumerate(release["weights"]):
            coarsest = any(step % 2 for step in vector["steps"]) or (not any(vector["steps"]) and vector["grid"] == 0)
            need(coarsest, "is not the coarsest on which the weights lie", f"weights[{index}].grid")
        return
    vectors = {f"weights[{index}]": vector for index, vector in enumerate(release["weights"])}
    vectors |= {"level1": release["level1"]} if release["level1"] is not None else {}
    holders = [part["parameters"] for part in mechanisms(release["release"])]
    models = itertools.chain.from_iterable(holder.get("groups", [holder]) for holder in holders)
    shapes = [(exponent(model["grid"]), model["dimension"]) for model in models if "grid" in model]
    need(len(shapes) == len(vectors), f"{len(vectors)} vectors, but {len(shapes)} grids are declared", "weights")
    for (path, vector), (grid, size) in zip(vectors.items(), shapes, strict=True):
        need(vector["grid"] == grid, f"is {vector['grid']}, but {grid} is declared", f"{path}.grid")
        steps = len(vector["steps"])
        need(steps == size, f"are {steps:,}, but the dimension declared is {size:,}", f"{path}.steps")


RELEASE_RULES: Rules = (
    ("owner", "aggregates are the coordinator's, only those", lambda r: owner_holds(r["kind"], r["party"], "party")),
    ("composition", "its cost and seed mark follow from its parts", composition_holds),
    ("seeded", "nobody can repeat its noise", not_seeded),
    ("aggregate", "if an aggregate, it has one part for each input", aggregate_holds),
    ("records", "it has the records that its description counts", records_hold),
    ("grids", "its vectors have the grids and dimensions declared", grids_hold),
)


def check_release(part: Part, data: bytes, key: Key, digest: str | None) -> Document:
    """All checks of one release."""
    document = open_envelope(part, data, "release", RELEASE, key)
    follow(part, RELEASE_RULES, document.value)
    if digest is not None:
        found = sha256(document.data)
        part.run("digest", f"its digest is {digest}", need, found == digest, f"is {found}, not {digest}", "digest")
    return document


# --- Receipt ----------------------------------------------------------------------------------------------------------


def task_holds(receipt: Value) -> None:
    """A receipt for ledger lines alone names no release."""
    need(receipt["task"] != "ledger" or receipt["release"] is None, "is not null, but only lines were sent", "release")


RECEIPT_RULES: Rules = (
    ("release", "no release if only ledger lines were sent", task_holds),
    ("head", "an empty head is 0 and zeros", lambda receipt: head_holds(receipt["head"], receipt["party"], "head")),
)


def check_receipt(part: Part, data: bytes, key: Key) -> Value:
    """All checks of one receipt."""
    receipt = open_envelope(part, data, "receipt", RECEIPT, key).value
    follow(part, RECEIPT_RULES, receipt)
    return receipt


# --- Certificate ------------------------------------------------------------------------------------------------------


def entries(certificate: Value, all_of_them: bool = True) -> Iterator[tuple[str, Value]]:
    """The entries of `parties`, each with its path; or only those that have a release."""
    for index, entry in enumerate(certificate["parties"]):
        if all_of_them or entry["release"] is not None:
            yield f"parties[{index}]", entry


def id_holds(certificate: Value) -> None:
    """Its id follows from the study's digest."""
    follows = f"cert-{certificate['study_hash'][:24]}"
    need(certificate["id"] == follows, f"is {brief(certificate['id'])}, but {follows} by the study's digest", "id")


def tasks_hold(certificate: Value) -> None:
    """The tasks' ids follow from the study's digest; each once."""
    seen = set()
    for path, entry in entries(certificate):
        follows = f"{certificate['study_hash'][:32]}.{entry['kind']}.{entry['party']}"
        need(entry["task"] == follows, f"is {entry['task']}, but {follows} by what it is", f"{path}.task")
        need(follows not in seen, "is given twice", f"{path}.task")
        seen.add(follows)


def times_hold(certificate: Value) -> None:
    """It did not end before it started; times of this form sort as texts."""
    need(certificate["started"] <= certificate["ended"], f"is after the end, {certificate['ended']}", "started")


def outcomes_hold(certificate: Value) -> None:
    """Outcomes fit what was released, and a complete study has a target that is done."""
    for path, entry in entries(certificate):
        fit = ("done", "late", "cancelled") if entry["release"] else ("done", "declined", "failed", "cancelled")
        why = f"is {entry['outcome']}, but there is {'a' if entry['release'] else 'no'} release"
        need(entry["outcome"] in fit, why, f"{path}.outcome")
    done = {entry["kind"] for _, entry in entries(certificate) if entry["outcome"] == "done"}
    whole = certificate["outcome"] != "complete" or "train-target" in done
    need(whole, "have no target that is done, but the study's outcome is complete", "parties")


def owners_hold(certificate: Value) -> None:
    """Only an aggregate is the coordinator's: it has no ledger, no charge, no records and no other key."""
    for path, entry in entries(certificate):
        release, own = entry["release"], entry["party"] == COORDINATOR
        owner_holds(entry["kind"], entry["party"], f"{path}.party")
        head_holds(entry["head"], entry["party"], f"{path}.head")
        need(not own or entry["charged"] is None, "nobody is charged for an aggregate", f"{path}.charged")
        if release is not None:
            need(not own or release["records"] == 0, "an aggregate has no records", f"{path}.release.records")
            only = "is null for the coordinator's own, and for no other"
            need((release["public_key"] is None) == own, only, f"{path}.release.public_key")


def charges_hold(certificate: Value) -> None:
    """What was released was charged, at least its cost, on a line that the head covers."""
    for path, entry in entries(certificate):
        charged, release, end = entry["charged"], entry["release"], entry["head"]["sequence"]
        if charged is not None:
            need(charged["line"] <= end, f"{charged['line']} is beyond the head, {end}", f"{path}.charged.line")
        if release is not None and entry["party"] != COORDINATOR:
            need(charged is not None, "is null, but there is a release", f"{path}.charged")
            for name in COST:
                enough = int(charged[name]) >= int(release[name])
                need(enough, f"{charged[name]} is less than the cost, {release[name]}", f"{path}.charged.{name}")


def keys_hold(certificate: Value) -> None:
    """A release's key is the one that its id names, and one party's."""
    owners: dict[str, str] = {}
    for path, entry in entries(certificate, all_of_them=False):
        written, key_id = entry["release"]["public_key"], entry["release"]["signed_by"]
        same = written is None or Key.read(written).id == key_id
        need(same, f"is not the key with the id {key_id}", f"{path}.release.public_key")
        owner = owners.setdefault(key_id, entry["party"])
        need(owner == entry["party"], f"this key is {owner}'s", f"{path}.release.signed_by")


def inputs_hold(certificate: Value) -> None:
    """Nobody learned from what is not certified here as done; an aggregate costs what its inputs cost."""
    released = [entry["release"] for _, entry in entries(certificate, all_of_them=False) if entry["outcome"] == "done"]
    done = {release["digest"]: release for release in released}
    for path, entry in entries(certificate, all_of_them=False):
        release = entry["release"]
        for index, digest in enumerate(release["learned_from"]):
            need(digest in done, f"{digest} is not certified here as done", f"{path}.release.learned_from[{index}]")
        for name in COST if entry["kind"] == "aggregate" else ():
            follows = max((int(done[digest][name]) for digest in release["learned_from"]), default=0)
            why = f"is {release[name]}, but {follows} by its inputs"
            need(int(release[name]) == follows, why, f"{path}.release.{name}")


def digests_hold(certificate: Value) -> None:
    """No release is two tasks'."""
    seen = set()
    for path, entry in entries(certificate, all_of_them=False):
        need(entry["release"]["digest"] not in seen, "is given twice", f"{path}.release.digest")
        seen.add(entry["release"]["digest"])


def signers_hold(certificate: Value, key: Key) -> None:
    """The coordinator signed its aggregates and no other release."""
    for path, entry in entries(certificate, all_of_them=False):
        own, signer = entry["party"] == COORDINATOR, entry["release"]["signed_by"]
        why = f"{signer} is {'not ' if own else ''}the coordinator's key"
        need((signer == key.id) == own, why, f"{path}.release.signed_by")


CERTIFICATE_RULES: Rules = (
    ("id", "its id follows from the study's digest", id_holds),
    ("tasks", "its tasks' ids follow from the study's digest, each once", tasks_hold),
    ("times", "it did not end before it started", times_hold),
    ("owners", "aggregates are the coordinator's, and only those", owners_hold),
    ("outcomes", "outcomes fit what was released", outcomes_hold),
    ("charges", "what was released was charged, at least its cost, within the head", charges_hold),
    ("keys", "each release's key is the one that its id names, and one party's", keys_hold),
    ("digests", "no release is two tasks'", digests_hold),
    ("inputs", "nobody learned from what is not certified here as done", inputs_hold),
)


def check_certificate(part: Part, data: bytes, key: Key) -> Value:
    """All checks of a certificate."""
    certificate = open_envelope(part, data, "certificate", CERTIFICATE, key).value
    follow(part, CERTIFICATE_RULES, certificate)
    part.run("signers", "the coordinator signed its aggregates and no other release", signers_hold, certificate, key)
    return certificate


def scaled(units: int, places: int) -> str:
    """A whole number of units of 10^-places as an exact decimal number."""
    more, rest = divmod(units, 10**places)
    return f"{more}.{rest:0{places}d}".rstrip("0").rstrip(".")


def price(value: Value) -> str:
    """A cost as exact decimal numbers."""
    epsilon, delta = cost(value)
    return f"epsilon {scaled(epsilon, 9)}" + (f", delta {scaled(delta, 18)}" if delta else "")


def facts(certificate: Value) -> list[str]:
    """What a certificate says, for people."""
    about = [certificate[name] for name in ("outcome", "started", "ended")]
    said = [f"study {certificate['study']}, {brief(certificate['title'])}: {about[0]}, {about[1]} to {about[2]}"]
    for _, entry in entries(certificate):
        release, charged = entry["release"], entry["charged"]
        who = f"  {entry['party']} ({entry['kind']}): {entry['outcome']}"
        if release is not None and entry["party"] == COORDINATOR:
            who += f", made from {len(release['learned_from']):,} releases of {price(release)}"
        elif release is not None:
            who += f", released a model of {release['records']:,} records at {price(release)}"
        said.append(who + (f", charged {price(charged)} to each person" if charged is not None else ""))
    return said


# --- Ledger -----------------------------------------------------------------------------------------------------------


def zcdp_limit(nano_epsilon: int, atto_delta: int) -> int:
    """L: how much rho, in units of 10^-18, a budget admits under the filter `zcdp`."""
    with decimal.localcontext(decimal.Context(prec=50, rounding=decimal.ROUND_HALF_EVEN)):
        log = -(decimal.Decimal(atto_delta) / 10**18).ln()
        root = (log + decimal.Decimal(nano_epsilon) / 10**9).sqrt() - log.sqrt()
        return int((10**18 * (root * root)).to_integral_value(decimal.ROUND_FLOOR))


class Budget:
    """The budget of a ledger, and what each cell has spent of it."""

    def __init__(self, body: Value) -> None:
        self.cells, self.zcdp, self.budget = body["cells"], body["filter"] == "zcdp", cost(body)
        self.limit = zcdp_limit(*self.budget) if self.zcdp else 0
        self.spent: dict[int, tuple[int, int, int]] = {}

    def charge(self, cells: list[int], epsilon: int, delta: int) -> None:
        """Charge these cells; Bad if there is one that does not exist or whose filter does not admit it."""
        need(cells[-1] < self.cells, f"there is no cell {cells[-1]}, only {self.cells}", "body.cells")
        for cell in cells:
            e, d, r = self.spent.get(cell, (0, 0, 0))
            e, d, r = e + epsilon, d + delta, r + (epsilon * epsilon + 1) // 2
            admits = delta == 0 and r <= self.limit if self.zcdp else e <= self.budget[0] and d <= self.budget[1]
            need(admits, f"the budget of cell {cell} does not admit it", "body")
            self.spent[cell] = (e, d, r)

    def level(self) -> None:
        """Every cell has spent the largest of all cells, number by number."""
        largest = tuple(max(column) for column in zip((0, 0, 0), *self.spent.values(), strict=True))
        self.spent = dict.fromkeys(range(self.cells), (largest[0], largest[1], largest[2]))


@dataclass
class Chain:
    """A ledger, taken line by line under the rule."""

    hashes: list[str] = field(default_factory=lambda: [NOTHING])  # of line 0, 1, 2 ...
    budget: Budget | None = None
    counted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("open", "seats", "recover"), 0))
    seated: bool = False  # whether a `seats` came after the last `recover`
    lost: int = 0  # the line of the last `recover`
    reserved: dict[str, tuple[int, Value]] = field(default_factory=dict)  # by task: a line's number and body
    released: dict[str, tuple[int, Value]] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """How many lines it has."""
        return len(self.hashes) - 1

    def add(self, row: bytes) -> None:
        """Take the next line of an export: its hash, a blank, the line, a line break."""
        need(row.endswith(b"\n"), "has no line break: it was cut")
        written, line = row[:64], row[65:-1]
        need(row[64:65] == b" " and sha256(line).encode() == written, "does not begin with the hash of its bytes")
        fits(len(line), LINE_BYTES, "bytes")
        value = Reader(line).document()
        fields(LINE)(value)
        fields({**LINE, "body": BODIES[value["kind"]]})(value)
        need(value["sequence"] == self.length + 1, f"is {value['sequence']}, not {self.length + 1}", "sequence")
        need(value["previous"] == self.hashes[-1], "is not the hash of the line before", "previous")
        {
            "open": self.open, "seats": self.seats, "reserve": self.reserve, "release": self.release,
            "recover": self.recover,
        }[value["kind"]](value["body"])  # fmt: skip
        self.hashes.append(written.decode())

    def open(self, body: Value) -> None:
        """The rule for `open`."""
        need(not self.reserved, "the budget is final, for something was reserved", "kind")
        self.count("open", body["version"], "version")
        need(body["filter"] != "zcdp" or body["atto_delta"] > 0, "is 0, and zcdp needs a delta", "body.atto_delta")
        same = self.budget is None or body["cells"] == self.budget.cells
        need(same, "is not the number of cells opened before", "body.cells")
        self.budget = Budget(body)

    def seats(self, body: Value) -> None:
        """The rule for `seats`."""
        self.opened()
        self.count("seats", body["version"], "version")
        self.seated = True

    def recover(self, body: Value) -> None:
        """The rule for `recover`."""
        budget = self.opened()
        self.count("recover", body["number"], "number")
        budget.level()
        self.seated, self.lost = False, self.length + 1

    def opened(self) -> Budget:
        """The budget; Bad if there is none yet."""
        if self.budget is None:
            raise Bad("comes before a budget was opened", "kind")
        return self.budget

    def count(self, kind: str, number: int, name: str) -> None:
        """Bad unless the lines of this kind count 1, 2, 3 ..."""
        need(number == self.counted[kind] + 1, f"is {number}, not {self.counted[kind] + 1}", f"body.{name}")
        self.counted[kind] = number

    def reserve(self, body: Value) -> None:
        """The rule for `reserve`."""
        ascend = all(left < right for left, right in itertools.pairwise(body["cells"]))
        need(ascend, "do not ascend, each once", "body.cells")
        need(body["task"] not in self.reserved, f"{brief(body['task'])} has a reservation", "body.task")
        budget = self.opened()
        need(self.seated, "comes before a commitment to who sits in which cell", "kind")
        budget.charge(body["cells"], *cost(body))
        self.reserved[body["task"]] = (self.length + 1, body)

    def release(self, body: Value) -> None:
        """The rule for `release`."""
        need(body["task"] in self.reserved, f"{brief(body['task'])} has no reservation", "body.task")
        need(body["task"] not in self.released, f"{brief(body['task'])} has a release", "body.task")
        late = self.reserved[body["task"]][0] < self.lost
        need(not late, f"{brief(body['task'])} was reserved before the seats were lost", "body.task")
        self.released[body["task"]] = (self.length + 1, body)

    def reaches(self, line: int, digest: str) -> None:
        """Bad unless this line is there and has this hash."""
        need(line <= self.length, f"the ledger ends at line {self.length:,}, the head is line {line:,}: it was cut")
        need(self.hashes[line] == digest, f"line {line:,} has the hash {self.hashes[line]}, not {digest}")


def read_chain(data: bytes) -> Chain:
    """The chain of an export."""
    chain = Chain()
    for row in io.BytesIO(data):
        try:
            chain.add(row)
        except Bad as bad:
            raise bad.under(f"line {chain.length + 1}") from None
    return chain


def check_ledger(part: Part, data: bytes) -> Chain:
    """All checks of an exported ledger but its head."""
    part.run("size", f"a ledger of {len(data):,} bytes", fits, len(data), LEDGER_BYTES, "bytes")
    chain = part.run("lines", "every line holds: hash, spelling, fields, bounds, order and the rule", read_chain, data)
    part.note("end", True, f"{chain.length:,} lines, the last with the hash {chain.hashes[-1]}")
    return chain


def check_head(part: Part, chain: Chain, line: int, digest: str) -> None:
    """That a ledger reaches a head that is known from elsewhere."""
    part.run("head", f"reaches line {line:,} with the hash {digest}", chain.reaches, line, digest)


# --- A study's bundle -------------------------------------------------------------------------------------------------

SHELVES = ("releases", "receipts", "ledgers")
ON_SHELVES = re.compile(r"(?:releases|receipts)/[0-9a-f]{64}\.json|ledgers/[a-z0-9-]{1,64}\.txt")


def read_file(path: Path, most: int, links: bool = True) -> bytes:
    """The bytes of a file, of one that is too long only some; Bad if there are none to read."""
    try:
        need(stat.S_ISREG((path.stat() if links else path.lstat()).st_mode), "is not a regular file")
        with path.open("rb") as file:
            return file.read(most + 2)  # with a line break, and one byte too many
    except FileNotFoundError:
        raise Bad("is missing") from None
    except (OSError, ValueError) as error:
        raise Bad(f"cannot be read: {error}") from None


def listing(folder: Path) -> list[str]:
    """What lies in a bundle's folder, shelves opened; what is no regular file says so in its name."""
    found = []
    for entry in os.scandir(folder):
        if entry.name in SHELVES and entry.is_dir(follow_symlinks=False):
            found += [f"{entry.name}/{name}" for name in listing(folder / entry.name)]
        else:
            found.append(entry.name + ("" if entry.is_file(follow_symlinks=False) else " (not a regular file)"))
    return sorted(found)


def belonging(certificate: Value) -> set[str]:
    """The files on the shelves of the bundle of this certificate."""
    digests = [entry["release"]["digest"] for _, entry in entries(certificate, all_of_them=False)]
    parties = {entry["party"] for _, entry in entries(certificate)} - {COORDINATOR}
    shelved = {f"{shelf}/{digest}.json" for digest in digests for shelf in ("releases", "receipts")}
    return shelved | {f"ledgers/{party}.txt" for party in parties}


@dataclass
class Bundle:
    """A folder that is verified."""

    report: Report
    folder: Path
    key: Key
    certificate: Value = None  # once it is verified
    described: dict[str, str] = field(default_factory=dict)  # by digest of a release: the digest of its description
    releases: dict[str, Value] = field(default_factory=dict)  # by digest

    def part(self, name: str, most: int) -> tuple[Part, bytes]:
        """A part by its name, and its bytes."""
        part = Part(self.report, name)
        return part, part.run("file", "is there", read_file, self.folder / name, most, links=False)

    def check(self, names: list[str]) -> None:
        """All parts; one that fails does not keep the others from being checked."""
        with contextlib.suppress(Stop):
            self.certificate = check_certificate(*self.part("certificate.json", ENVELOPE_BYTES), self.key)
        self.check_files(names)
        with contextlib.suppress(Stop):
            self.check_study()
        if self.certificate is None:
            self.check_alone(names)
            return
        for path, entry in entries(self.certificate, all_of_them=False):
            for check in (self.check_release, self.check_receipt):
                with contextlib.suppress(Stop):
                    check(path, entry)
        ledgers = {e["party"] for _, e in entries(self.certificate) if e["head"]["sequence"]}
        ledgers |= {name[8:-4] for name in names if name in belonging(self.certificate) and name.startswith("ledgers/")}
        for party in sorted(ledgers):
            with contextlib.suppress(Stop):
                self.check_ledger(party)

    def check_files(self, names: list[str]) -> None:
        """Nothing lies there that does not belong to the bundle."""
        known = {"certificate.json", "study.json", *FOR_PEOPLE}
        known |= belonging(self.certificate) if self.certificate else set(filter(ON_SHELVES.fullmatch, names))
        strange = [name for name in names if name not in known]
        for name in strange[:100]:
            Part(self.report, name).note("belongs", False, "a file that the certificate does not name")
        detail = f"{len(names):,} files, {len(strange):,} of which the certificate does not name"
        Part(self.report, "bundle").note("belongs", not strange, detail)
        for name in FOR_PEOPLE:
            if name in names:
                Part(self.report, name).note("note", True, "not verified: for people")

    def check_study(self) -> None:
        """The study: its digest, and that the certificate says what it says."""
        part, data = self.part("study.json", STUDY_BYTES + 1)
        data = data.removesuffix(b"\n")
        part.run("size", f"a study of {len(data):,} bytes", fits, len(data), STUDY_BYTES, "bytes")
        study = Document.read(part, "study", data).value
        part.run("fields", "exactly the fields of a study", STUDY, study)
        if self.certificate is not None:
            said = self.certificate["study_hash"]
            part.run("digest", f"its digest is {said}", agree, "study_hash", said, "the digest", sha256(data))
            told = "id, title, purpose, method and parties are as certified"
            part.run("certificate", told, study_agrees, self.certificate, study)

    def check_release(self, path: str, entry: Value) -> None:
        """A release that the certificate names."""
        said = entry["release"]
        part, data = self.part(f"releases/{said['digest']}.json", ENVELOPE_BYTES)
        key = self.key if said["public_key"] is None else Key.read(said["public_key"])
        document = check_release(part, data, key, said["digest"])
        self.described[said["digest"]] = document.digest_of("release")
        self.releases[said["digest"]] = document.value
        told = "party, kind, study, method, mechanism, cost, code, records and inputs are as certified"
        part.run("certificate", told, release_agrees, self.certificate, path, entry, document.value)
        if entry["kind"] == "aggregate":
            part.run("inputs", "its parts describe its inputs, in order", parts_agree, document.value, self.releases)

    def check_receipt(self, path: str, entry: Value) -> None:
        """The coordinator's receipt for a release that the certificate names."""
        part, data = self.part(f"receipts/{entry['release']['digest']}.json", ENVELOPE_BYTES)
        receipt = check_receipt(part, data, self.key)
        told = "party, task, release and head are as certified"
        part.run("certificate", told, receipt_agrees, self.certificate, path, entry, receipt)

    def check_ledger(self, party: str) -> None:
        """A party's ledger: it holds, and has what the certificate says of this party."""
        part, data = self.part(f"ledgers/{party}.txt", LEDGER_BYTES)
        chain = check_ledger(part, data)
        for path, entry in entries(self.certificate):
            if entry["party"] == party:
                check_head(part, chain, entry["head"]["sequence"], entry["head"]["hash"])
                told = f"charged for {entry['task']} as certified"
                part.run("charge", told, charge_agrees, self.certificate, path, entry, chain)
            if entry["party"] == party and entry["release"] is not None:
                told = f"released for {entry['task']} as certified, and as described when it was charged"
                part.run("release", told, lines_agree, path, entry, chain, self.described)

    def check_alone(self, names: list[str]) -> None:
        """Without a certificate that holds: what can be verified by itself."""
        for name in filter(ON_SHELVES.fullmatch, names):
            with contextlib.suppress(Stop):
                if name.startswith("receipts/"):
                    check_receipt(*self.part(name, ENVELOPE_BYTES), self.key)
                if name.startswith("ledgers/"):
                    check_ledger(*self.part(name, LEDGER_BYTES))
        Part(self.report, "releases").note("key", False, "not checked: no certificate that holds names their keys")


def agree(path: str, said: Value, what: str, found: Value) -> None:
    """Bad unless the certificate says what was found."""
    same = type(said) is type(found) and said == found
    need(same, f"is {brief(found)}, but the certificate's {path} is {brief(said)}", what)


def study_agrees(certificate: Value, study: Value) -> None:
    """The certificate says what the study says, and names only its parties."""
    for name, own in (("study", "id"), ("title", "title"), ("purpose", "purpose")):
        agree(name, certificate[name], own, study[own])
    method = study["method"].get("name") if isinstance(study["method"], dict) else None
    agree("method", certificate["method"], "method.name", method)
    takes_part = {"train-source": study["sources"], "train-target": study["targets"], "aggregate": [COORDINATOR]}
    for path, entry in entries(certificate):
        why = f"the study has no {entry['kind']} by the certificate's {path}.party, {entry['party']}"
        need(entry["party"] in takes_part[entry["kind"]], why)
    for kind, who, must in (("train-source", "sources", True), ("train-target", "targets", False)):
        there = {entry["party"] for _, entry in entries(certificate) if entry["kind"] == kind}
        left_out = sorted(set(study[who]) - there) if there or must else []
        need(not left_out, f"the certificate has no entry for {', '.join(left_out[:5])}", who)


def release_agrees(certificate: Value, path: str, entry: Value, release: Value) -> None:
    """The certificate says of a release what the release says."""
    said, described = entry["release"], release["release"]
    for name in ("party", "kind"):
        agree(f"{path}.{name}", entry[name], name, release[name])
    for name in ("study_hash", "method"):
        agree(name, certificate[name], name, release[name])
    for name in ("mechanism", "nano_epsilon", "atto_delta", "neighbours"):
        agree(f"{path}.release.{name}", said[name], f"release.{name}", described[name])
    agree(f"{path}.release.code_version", said["code_version"], "code_version", release["code_version"])
    agree(f"{path}.release.records", said["records"], "n", release["n"])
    agree(f"{path}.release.learned_from", said["learned_from"], "inputs", release["inputs"])


def parts_agree(aggregate: Value, releases: dict[str, Value]) -> None:
    """Each part of an aggregate is the description of the release it was made from."""
    for index, (digest, part) in enumerate(zip(aggregate["inputs"], aggregate["release"]["parts"], strict=True)):
        found = releases.get(digest)  # one that failed was named already
        same = found is None or found["release"] == part
        need(same, f"is not what {digest} says of itself", f"release.parts[{index}]")


def receipt_agrees(certificate: Value, path: str, entry: Value, receipt: Value) -> None:
    """The receipt says of a release what the certificate says, and is not later."""
    need(receipt["time"] <= certificate["ended"], "is after the certificate's end", "time")
    for name in ("party", "task"):
        agree(f"{path}.{name}", entry[name], name, receipt[name])
    agree(f"{path}.release.digest", entry["release"]["digest"], "release", receipt["release"])
    for name in ("sequence", "hash"):
        agree(f"{path}.head.{name}", entry["head"][name], f"head.{name}", receipt["head"][name])


def charge_agrees(certificate: Value, path: str, entry: Value, chain: Chain) -> None:
    """The ledger has, up to the head, the charge that the certificate names; none for this study if it names none."""
    charged, task, end = entry["charged"], entry["task"], entry["head"]["sequence"]
    line, body = chain.reserved.get(task, (0, None))
    if charged is None:
        ours = 0 < line <= end and all(body[name] == certificate[name] for name in ("study", "study_hash"))
        need(not ours, f"reserves for {task}, but the certificate's {path}.charged is null", f"line {line}")
        return
    need(line == charged["line"], f"{line or 'none'}, but the certificate's {path}.charged.line is {charged['line']}",
         f"the line that reserves for {task}")  # fmt: skip
    for name in ("study", "study_hash"):
        agree(name, certificate[name], f"line {line}: body.{name}", body[name])
    for name in COST:
        agree(f"{path}.charged.{name}", charged[name], f"line {line}: body.{name}", body[name])


def lines_agree(path: str, entry: Value, chain: Chain, described: dict[str, str]) -> None:
    """The ledger has, up to the head, the release; and it was charged for that very description."""
    digest, task = entry["release"]["digest"], entry["task"]
    line, body = chain.released.get(task, (0, None))
    need(0 < line <= entry["head"]["sequence"], f"no line up to the certificate's {path}.head releases for {task}")
    agree(f"{path}.release.digest", digest, f"line {line}: body.digest", body["digest"])
    line, body = chain.reserved[task]
    found = described.get(digest, body["release"])  # a release that failed was named already
    why = f"is {body['release']}, but the release's description has the digest {found}"
    need(body["release"] == found, why, f"line {line}: body.release")


# --- What others call -------------------------------------------------------------------------------------------------


def given_key(written: str) -> Key:
    """The key that the caller gave."""
    try:
        return Key.read(written)
    except Bad as bad:
        raise Usage(f"the key {bad}") from None


def verify_certificate(data: bytes, key: str) -> Report:
    """Verify a certificate by the coordinator's public key."""
    report, by = Report(), given_key(key)
    with contextlib.suppress(Stop):
        report.facts = facts(check_certificate(Part(report, "certificate"), data, by))
    return report


def verify_release(data: bytes, key: str, digest: str | None = None) -> Report:
    """Verify a release by its party's public key; with `digest`, that it is the one with this digest."""
    report, by = Report(), given_key(key)
    with contextlib.suppress(Stop):
        release = check_release(Part(report, "release"), data, by, digest).value
        told = f"{release['party']} ({release['kind']}), {release['n']:,} records, {price(release['release'])}"
        report.facts = [f"{told}, for the study {release['study_hash']}"]
    return report


def verify_receipt(data: bytes, key: str) -> Report:
    """Verify a receipt by the coordinator's public key."""
    report, by = Report(), given_key(key)
    with contextlib.suppress(Stop):
        receipt = check_receipt(Part(report, "receipt"), data, by)
        end = f"its ledger stood at {receipt['head']['sequence']}:{receipt['head']['hash']}"
        report.facts = [f"{receipt['party']}, task {receipt['task']}, release {receipt['release'] or 'none'}; {end}"]
    return report


def verify_ledger(data: bytes, head: tuple[int, str] | None = None) -> Report:
    """Verify an exported ledger; with `head`, that it reaches this line with this hash."""
    report = Report()
    with contextlib.suppress(Stop):
        chain = check_ledger(Part(report, "ledger"), data)
        if head is not None:
            check_head(Part(report, "ledger"), chain, *head)
    return report


def verify_bundle(folder: str | Path, key: str) -> Report:
    """Verify all that a study left behind by the coordinator's public key."""
    bundle = Bundle(Report(), Path(folder), given_key(key))
    try:
        names = listing(bundle.folder)
    except (OSError, ValueError) as error:
        raise Usage(f"{folder} cannot be read: {error}") from None
    bundle.check(names)
    bundle.report.facts = facts(bundle.certificate) if bundle.report.verified else []
    return bundle.report


# --- Command line -----------------------------------------------------------------------------------------------------

COMMANDS = {
    "certificate": ("FILE", "a certificate, by the coordinator's key"),
    "release": ("FILE", "a release, by its party's key (an aggregate: by the coordinator's)"),
    "receipt": ("FILE", "a receipt, by the coordinator's key"),
    "ledger": ("FILE", "an exported ledger"),
    "bundle": ("FOLDER", "all that a study left behind, by the coordinator's key"),
}


def command_line() -> argparse.ArgumentParser:
    """What may be asked."""
    top = argparse.ArgumentParser(
        prog="verify.py",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Verify what the parties of a Crossward study signed, offline.\n"
        "Learn KEY from a person, not from what you verify.\n"
        "Exit code 0: verified, 1: not verified, 2: called wrongly.",
        epilog="example: python verify.py bundle study/ --key E8g7PdnC-kbczEYy50zwMS-JPw3G5R1cZ6sULefItuI",
    )
    what = top.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, (place, told) in COMMANDS.items():
        command = what.add_parser(name, help=told, description=f"Verify {told}.")
        command.add_argument("place", metavar=place, help="what to verify")
        command.add_argument("--json", action="store_true", help="print the checks as JSON")
        if name == "ledger":
            command.add_argument("--head", metavar="N:HASH", help="a line that it must reach, known from elsewhere")
        else:
            command.add_argument("--key", required=True, metavar="KEY", help="public key of 43 base64url characters")
        if name == "release":
            command.add_argument("--digest", metavar="D", help="the digest that its payload must have")
    return top


def answer(asked: argparse.Namespace) -> Report:
    """Verify what the caller asked for."""
    if asked.what == "bundle":
        return verify_bundle(asked.place, asked.key)
    try:
        data = read_file(Path(asked.place), LEDGER_BYTES if asked.what == "ledger" else ENVELOPE_BYTES)
    except Bad as bad:
        raise Usage(f"{asked.place} {bad}") from None
    if asked.what == "ledger":
        head = re.fullmatch("([0-9]{1,16}):([0-9a-f]{64})", asked.head or f"0:{NOTHING}")
        if head is None:
            raise Usage("--head is the number of a line, a colon, and its hash of 64 hex digits")
        return verify_ledger(data, (int(head[1]), head[2]) if asked.head else None)
    if asked.what == "release":
        if not re.fullmatch("[0-9a-f]{64}", asked.digest or NOTHING):
            raise Usage("--digest is 64 hex digits")
        return verify_release(data, asked.key, asked.digest)
    return (verify_certificate if asked.what == "certificate" else verify_receipt)(data, asked.key)


def as_json(report: Report) -> str:
    """The report for programs."""
    checks = [asdict(check) for check in report.checks]
    return json.dumps({"verified": report.verified, "checks": checks, "failure": report.failure}, indent=1)


def as_text(report: Report) -> str:
    """The report for people: a line for each check, grouped by part, and a summary."""
    lines = []
    for part, checks in itertools.groupby(report.checks, key=lambda check: check.part):
        for check in checks:
            word = "note" if check.check == "note" else "ok" if check.ok else "FAIL"
            lines.append(f"{word:5} {part}: {'' if check.ok else check.check + ': '}{check.detail}")
        lines.append("")
    made = sum(check.check != "note" for check in report.checks)
    lines.append(f"verified: {made} checks" if report.verified else f"NOT verified: {report.failure}")
    return "\n".join(printable(line) for line in lines + report.facts)


def main(arguments: list[str] | None = None) -> int:
    """Verify, print, and give the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--key" in words[:-1]:  # a key may begin with a dash, which argparse would take for an option
        at = words.index("--key")
        words[at : at + 2] = [f"--key={words[at + 1]}"]
    asked = command_line().parse_args(words)
    try:
        report = answer(asked)
    except Usage as usage:
        print(printable(f"verify.py: {usage}"), file=sys.stderr)
        return 2
    print(as_json(report) if asked.json else as_text(report))
    return 0 if report.verified else 1


if __name__ == "__main__":
    sys.exit(main())
