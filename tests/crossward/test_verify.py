"""Tests of verify.py: published vectors, every field changed and signed again, every byte flipped, hostile input."""

import base64
import copy
import hashlib
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crossward import verify

VECTORS = Path(__file__).parents[2] / "docs" / "vectors"
BUNDLES = ("bundle", "bundle-aggregate")
KEYS = {key["party"]: key for key in json.loads((VECTORS / "keys.json").read_text())}
BY_ID = {key["key_id"]: key for key in KEYS.values()}
KEY = KEYS["coordinator"]["public_key"]
Path_ = tuple[str | int, ...]


# --- Tools: a writer of canonical JSON, a signer, a bundle that can be changed and mended -----------------------------


class Raw(str):
    """A piece of JSON that is written as it is."""

    __slots__ = ()


def written(value: Any) -> str:
    """Canonical JSON; numbers that are not whole are kept as they were spelled."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{written(key)}:{written(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def payload_of(envelope: bytes) -> Any:
    """The payload of an envelope, with spelled floats."""
    return json.loads(base64.b64decode(json.loads(envelope)["payload"]), parse_float=Raw)


def signer_of(envelope: bytes) -> str:
    """Which party signed."""
    return str(BY_ID[json.loads(envelope)["signatures"][0]["keyid"]]["party"])


def pae(kind: str, payload: bytes) -> bytes:
    """The bytes that are signed."""
    return b" ".join([b"DSSEv1", str(len(kind)).encode(), kind.encode(), str(len(payload)).encode(), payload])


def signed(payload: bytes | str, kind: str, party: str = "coordinator") -> bytes:
    """An envelope."""
    raw = payload.encode() if isinstance(payload, str) else payload
    kind = f"application/vnd.crossward.{kind}+json"
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(KEYS[party]["seed"]))
    sig = base64.b64encode(private.sign(pae(kind, raw))).decode()
    made = {
        "payload": base64.b64encode(raw).decode(),
        "payloadType": kind,
        "signatures": [{"keyid": KEYS[party]["key_id"], "sig": sig}],
    }
    return written(made).encode()


def files_of(folder: Path) -> list[str]:
    """The files of a folder, by name."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture(params=BUNDLES)
def bundle(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a published bundle."""
    return Path(shutil.copytree(VECTORS / request.param, tmp_path / "bundle"))


def failures(report: verify.Report) -> list[verify.Check]:
    """The failed checks."""
    return [check for check in report.checks if not check.ok]


def bad_parts(report: verify.Report) -> set[str]:
    """The parts that failed."""
    return {check.part for check in failures(report)}


class Changed:
    """A file of a bundle that has other bytes for a while."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.data, self.was = path, data, path.read_bytes()

    def __enter__(self) -> None:
        self.path.write_bytes(self.data)

    def __exit__(self, *_: object) -> None:
        self.path.write_bytes(self.was)


# --- Vectors ----------------------------------------------------------------------------------------------------------

CANONICAL = json.loads((VECTORS / "canonical.json").read_text())
LEDGER = json.loads((VECTORS / "ledger.json").read_text())
ENVELOPES = json.loads((VECTORS / "envelopes.json").read_text())


@pytest.mark.parametrize("case", CANONICAL["taken"], ids=lambda case: ascii(case["text"][:30]))
def test_canonical_taken(case: dict[str, str]) -> None:
    data = base64.b64decode(case["bytes"])
    doubles = json.loads(data, parse_int=lambda text: int(text) if len(text) < 17 else float(text))
    assert verify.Reader(data).document() == doubles
    assert data.decode() == case["text"]


@pytest.mark.parametrize("case", CANONICAL["refused"], ids=lambda case: case["why"])
def test_canonical_refused(case: dict[str, str]) -> None:
    with pytest.raises(verify.Bad):
        verify.Reader(base64.b64decode(case["bytes"])).document()


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_keys(key: dict[str, str]) -> None:
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key["seed"]))
    read = verify.Key.read(key["public_key"])
    assert read.raw == private.public_key().public_bytes_raw()
    assert read.id == key["key_id"]


@pytest.mark.parametrize("case", ENVELOPES, ids=lambda case: case["digest"][:8])
def test_envelopes(case: dict[str, str]) -> None:
    envelope = json.loads(case["envelope"])
    kind = envelope["payloadType"].removeprefix("application/vnd.crossward.").removesuffix("+json")
    payload = case["payload"].encode()
    assert hashlib.sha256(payload).hexdigest() == case["digest"]
    assert base64.b64decode(case["signed_bytes"]) == pae(envelope["payloadType"], payload)
    assert signed(payload, kind, case["signer"]) == case["envelope"].encode()
    report = getattr(verify, f"verify_{kind}")(case["envelope"].encode(), KEYS[case["signer"]]["public_key"])
    assert report.verified
    assert report.failure is None
    assert report.facts
    for other in set(KEYS) - {case["signer"]}:
        report = getattr(verify, f"verify_{kind}")(case["envelope"].encode(), KEYS[other]["public_key"])
        assert [check.check for check in failures(report)] == ["key id"]


def export(lines: list[str]) -> bytes:
    """Lines as an exported ledger."""
    return "".join(f"{hashlib.sha256(line.encode()).hexdigest()} {line}\n" for line in lines).encode()


@pytest.mark.parametrize("case", LEDGER["taken"], ids=lambda case: case["what"])
def test_ledger_taken(case: dict[str, Any]) -> None:
    chain = verify.read_chain(export(case["lines"]))
    assert chain.hashes[1:] == case["hashes"]
    for number, digest in enumerate(case["hashes"], 1):
        assert verify.verify_ledger(export(case["lines"]), (number, digest)).verified
        assert not verify.verify_ledger(export(case["lines"]), (number, "1" * 64)).verified
    cut = verify.verify_ledger(export(case["lines"][:-1]), (len(case["lines"]), case["hashes"][-1]))
    assert "it was cut" in str(cut.failure)


@pytest.mark.parametrize("case", LEDGER["refused"], ids=lambda case: case["why"])
def test_ledger_refused(case: dict[str, Any]) -> None:
    assert f"line {case['line']}" in str(verify.verify_ledger(export(case["lines"])).failure)
    assert verify.verify_ledger(export(case["lines"][: case["line"] - 1])).verified


def test_zcdp() -> None:
    for case in json.loads((VECTORS / "zcdp.json").read_text()):
        assert verify.zcdp_limit(case["nano_epsilon"], int(case["atto_delta"])) == int(case["limit"])


def test_bundles_verify(bundle: Path) -> None:
    report = verify.verify_bundle(bundle, KEY)
    assert report.verified, report.failure
    assert {check.part for check in report.checks} == {*files_of(bundle), "bundle"}
    assert "epsilon 0.5" in report.facts[1]
    for name in ("README.txt", "verify.py"):
        (bundle / name).write_text("anything")
    for name in ("certificate.json", "study.json", *files_of(bundle)[-5:-4]):
        if name.endswith(".json"):
            with (bundle / name).open("ab") as file:
                file.write(b"\n")  # a file of one document may end with a line break
    assert verify.verify_bundle(bundle, KEY).verified


# --- Every field of every payload, changed and signed again -----------------------------------------------------------


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every value of a document with its path; of a long list the first and the last."""
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    if isinstance(value, list):
        some = range(len(value)) if len(value) < 4 else (0, len(value) - 1)
        for index in some:
            yield from leaves(value[index], (*path, index))


def other_text(text: str) -> str:
    """A text of the same form that is another one."""
    if re.fullmatch("[0-9]{4}-.*Z", text):
        return text.replace("T12:", "T13:")
    if re.fullmatch("[0-9a-f]{16,}", text):
        return ("1" if text[0] == "0" else "0") + text[1:]
    return text + "x"


def others(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values in a value's place, by the name of the change."""
    wrongs = {"null": None, "a list": [[]], "an object": {"x": 1}, "a truth": True, "a text": "x y"}
    for name, wrong in wrongs.items():
        if value is not wrong and value != wrong:
            yield f"becomes {name}", wrong
    if isinstance(value, bool):
        yield "turned", not value
        yield "as a number", int(value)
    elif isinstance(value, int):
        yield "plus 1", value + 1
        yield "minus 1", value - 1
        yield "huge", Raw("1e+300")
        yield "as a text", str(value)
        yield "re-spelled", Raw(f"{value}.0")
        yield "re-spelled by power", Raw(f"{value}e0")
        yield "with a fraction", Raw(f"{value}.5")
    elif isinstance(value, Raw):
        yield "another", Raw("0.12345")
        yield "as a text", str(value)
        yield "re-spelled", Raw(value + "0")
    elif isinstance(value, str):
        yield "another", other_text(value)
        yield "empty", ""
        yield "as a number", 7
        yield "re-spelled", Raw(f'"\\u{ord(value[0]):04x}{value[1:]}"' if value else '"\\/"')
    elif isinstance(value, list):
        yield from (("emptied", []), ("reversed", value[::-1]), ("shortened", value[:-1]))
        yield "last twice", value + value[-1:]
    elif isinstance(value, dict):
        for key in value:
            yield f"without {key}", {name: value[name] for name in value if name != key}
            yield f"{key} renamed", {name + "_" * (name == key): value[name] for name in value}
        yield "with one more", {**value, "zz": 1}
        yield "with a key twice", Raw(written(value)[:-1] + f",{written(max(value))}:1}}")
        yield "with a blank", Raw(written(value)[:-1] + " }")
    elif value is None:
        yield "becomes 0", 0
        yield "becomes a digest", "1" * 64


def put(document: Any, path: Path_, value: Any) -> Any:
    """A copy of a document with another value at a path."""
    if not path:
        return value
    made = copy.copy(document)
    made[path[0]] = put(document[path[0]], path[1:], value)
    return made


def shown(path: Path_) -> str:
    """A path as verify.py writes it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def changes(document: Any) -> Iterator[tuple[str, str, Any]]:
    """Every change of a document: path, what was done, the document after it."""
    for path, value in leaves(document):
        for name, other in others(value):
            if written(other) != written(value):
                yield shown(path), name, put(document, path, other)


def survivors(document: Any, verified: Callable[[Any, str, str], bool]) -> dict[str, set[str]]:
    """Which changes verify: by path (indices left out) the changes."""
    found: dict[str, set[str]] = {}
    for path, name, changed in changes(document):
        if verified(changed, path, name):
            found.setdefault(re.sub(r"\[\d+\]", "[]", path), set()).add(name)
    return found


def releases() -> list[tuple[str, str]]:
    return [(name, path.name) for name in BUNDLES for path in sorted((VECTORS / name / "releases").iterdir())]


# What a release cannot show by itself: nothing inside it says what these should be. In a bundle its digest, which the
# certificate, the receipt and the ledger name, binds every one of them.
BY_STUDY = "only the certificate and the study say which party, study, method and inputs"
BY_PROOF = "a number of the description: the formulas of the proofs and the study would have to be computed"
BY_TRAINING = "the weights themselves: nothing but the noise and the data made them"
FREE_IN_A_RELEASE = {
    "study_hash": BY_STUDY,
    "party": BY_STUDY,
    "method": BY_STUDY,
    "inputs": BY_STUDY,
    "inputs[]": BY_STUDY,
    "code_version": "nothing but the code that wrote it knows",
    "release.mechanism": "of a composition: any text ('what made it')",
    "release.nano_epsilon": "of a single mechanism: " + BY_PROOF,
    "release.atto_delta": "of a single mechanism: " + BY_PROOF,
    "release.parts": "reversed, where both parts declare the same grids or it is an aggregate",
    "release.parts[].nano_epsilon": "in parallel only the largest counts",
    "release.parts[].parameters.n": "of an aggregate, whose own n is 0",
    "weights": "of an aggregate, or in another order on the same grids: " + BY_TRAINING,
    "weights[].grid": "of an aggregate: its own choice",
    "weights[].steps": "in another order: " + BY_TRAINING,
    "weights[].steps[]": BY_TRAINING,
    "level1.steps": "in another order: " + BY_TRAINING,
    "level1.steps[]": BY_TRAINING,
}
FREE_PARAMETERS = """
    epsilon_objective epsilon_output epsilon_prime tolerance loss jacobian groups groups[].ball.columns
    groups[].ball.columns[] groups[].ball.intercept groups[].ball.offset groups[].ball.q groups[].ball.radius
    groups[].ball.scale groups[].ball.scale[] groups[].extra groups[].lam groups[].pull
"""
for each_parameter in re.findall(r"\S+", FREE_PARAMETERS):
    FREE_IN_A_RELEASE[f"release.parameters.{each_parameter}"] = BY_PROOF
    FREE_IN_A_RELEASE[f"release.parts[].parameters.{each_parameter}"] = BY_PROOF
FREE_IN_A_RELEASE["release.parts[].parameters.groups[].dimension"] = "of an aggregate, whose weights are its own"
NEVER_FREE = re.compile(  # whatever the field: another type, another spelling, another set of fields
    "re-spelled.*|becomes (a list|an object|a truth)|as a (text|number)|without .*|.* renamed|"
    "with (one more|a key twice|a blank)"
)


def test_releases_changed_and_signed_again() -> None:
    """By itself: each change fails, named with its field, but for the fields that nothing inside a release binds."""
    free: set[str] = set()
    for name, file in releases():
        data = (VECTORS / name / "releases" / file).read_bytes()
        party = signer_of(data)

        def verified(changed: Any, path: str, change: str, party: str = party) -> bool:
            report = verify.verify_release(signed(written(changed), "release", party), KEYS[party]["public_key"])
            assert report.verified or bad_parts(report) == {"release"}
            if not report.verified and NEVER_FREE.fullmatch(change) is None and path and "version" not in path:
                assert "release" in str(report.failure) or path.partition(".")[0] in str(report.failure), path
            assert not (report.verified and NEVER_FREE.fullmatch(change)), (path, change)
            return report.verified

        free |= set(survivors(payload_of(data), verified))
    assert free == set(FREE_IN_A_RELEASE) - {"release.parameters.groups[].pull"}  # null in both single vectors


def test_fields_are_named_by_their_path() -> None:
    """A changed type is refused at the very path."""
    for name, file in releases():
        data = (VECTORS / name / "releases" / file).read_bytes()
        party = signer_of(data)
        for path, value in leaves(payload_of(data)):
            if path and path != ("version",) and value is not None:
                changed = put(payload_of(data), path, {"x": 1} if not isinstance(value, dict) else 5)
                report = verify.verify_release(signed(written(changed), "release", party), KEYS[party]["public_key"])
                assert failures(report)[0].detail.startswith(shown(path).split(".mechanism")[0]), shown(path)


def test_releases_in_a_bundle(bundle: Path) -> None:
    """In a bundle every change of a release fails, also one that the release alone cannot show."""
    for file in sorted((bundle / "releases").iterdir()):
        data = file.read_bytes()
        party, part = signer_of(data), f"releases/{file.name}"
        for count, (path, change, changed) in enumerate(changes(payload_of(data))):
            if path in ("study_hash", "method", "release.nano_epsilon", "weights[0].steps[0]") or count % 150 == 0:
                with Changed(file, signed(written(changed), "release", party)):
                    report = verify.verify_bundle(bundle, KEY)
                assert bad_parts(report) == {part}, (path, change)


# What nothing else in a bundle says, so that the coordinator, who signs them, could say otherwise.
FREE_IN_A_CERTIFICATE = {
    "code_version": "of the coordinator: nothing else names it",
    "started": "only that it is not after the end is known",
    "ended": "as started",
    "outcome": "whether a study is complete follows from rules that the page does not give",
    "parties": "the order of entries; and an entry without release and ledger (see the page's defects)",
    "cause": "words",
    "parties[].cause": "words",
    "parties[].outcome": "done, late and cancelled differ only in whether others learned from it",
    "proofs": "names of pages",
    "proofs[]": "names of pages",
    "public_set": "the public records are not in a bundle",
}


def certificate_changes(document: Any) -> Iterator[tuple[str, str, Any]]:
    """The changes of any document, and other outcomes and earlier starts."""
    yield from changes(document)
    yield "started", "earlier", put(document, ("started",), "2026-01-31T11:00:00.000000Z")
    for outcome in ("failed", "cancelled"):
        yield "outcome", outcome, put(document, ("outcome",), outcome)
    for index in range(len(document["parties"])):
        for outcome in ("late", "declined", "failed", "cancelled"):
            yield f"parties[{index}].outcome", outcome, put(document, ("parties", index, "outcome"), outcome)
        for kind in ("train-source", "train-target", "aggregate"):
            if kind != document["parties"][index]["kind"]:
                yield f"parties[{index}].kind", kind, put(document, ("parties", index, "kind"), kind)


def test_certificates_changed_and_signed_again(bundle: Path) -> None:
    """Each change fails in the certificate or in what disagrees with it, but for what nothing else binds."""
    file, free = bundle / "certificate.json", set()
    for count, (path, change, changed) in enumerate(certificate_changes(payload_of(file.read_bytes()))):
        data = signed(written(changed), "certificate")
        alone = verify.verify_certificate(data, KEY)
        if not alone.verified:
            assert bad_parts(alone) == {"certificate"}
            detail = failures(alone)[0].detail
            top = re.split(r"[\[.]", path)[0]
            assert top in detail or NEVER_FREE.fullmatch(change) or path == "study_hash", (path, change, detail)
        if alone.verified or count % 150 == 0:
            with Changed(file, data):
                report = verify.verify_bundle(bundle, KEY)
            if report.verified:
                assert NEVER_FREE.fullmatch(change) is None, (path, change)
                free.add(re.sub(r"\[\d+\]", "[]", path))
            else:
                named = [f for f in failures(report) if f.part == "certificate.json" or "certificate" in f.detail]
                assert named, (path, change, report.failure)
    assert free | {"parties[].outcome"} == set(FREE_IN_A_CERTIFICATE)  # a complete study keeps a target that is done


def test_receipts_changed_and_signed_again(bundle: Path) -> None:
    """Of a receipt only its time is said nowhere else; it is not after the end."""
    for file in sorted((bundle / "receipts").iterdir()):
        free, data = set(), file.read_bytes()
        receipt = payload_of(data)
        earlier = ("time", "earlier", receipt | {"time": "2026-01-31T11:00:00.000000Z"})
        for path, change, changed in (*changes(receipt), earlier):
            again = signed(written(changed), "receipt")
            if not verify.verify_receipt(again, KEY).verified:
                continue
            with Changed(file, again):
                report = verify.verify_bundle(bundle, KEY)
            assert report.verified or bad_parts(report) == {f"receipts/{file.name}"}, (path, change)
            free |= {path} if report.verified else set()
        assert free == {"time"}


def test_study_changed(bundle: Path) -> None:
    """The study is not signed: its digest binds every byte."""
    study = json.loads((bundle / "study.json").read_bytes(), parse_float=Raw)
    for count, (path, change, changed) in enumerate(changes(study)):
        if count % 30 == 0 or path in ("title", "sources", "method.name"):
            with Changed(bundle / "study.json", written(changed).encode()):
                assert bad_parts(verify.verify_bundle(bundle, KEY)) == {"study.json"}, (path, change)


def test_wrong_signer(bundle: Path) -> None:
    """A party cannot sign for another, nor for the coordinator."""
    for name in files_of(bundle):
        if name.endswith(".json") and name != "study.json":
            data = (bundle / name).read_bytes()
            kind = json.loads(data)["payloadType"].split(".")[-1].removesuffix("+json")
            for party in set(KEYS) - {signer_of(data)}:
                forged = signed(base64.b64decode(json.loads(data)["payload"]), kind, party)
                posing = forged.replace(KEYS[party]["key_id"].encode(), KEYS[signer_of(data)]["key_id"].encode())
                for attempt, check in ((forged, "key id"), (posing, "signature")):
                    with Changed(bundle / name, attempt):
                        failed = failures(verify.verify_bundle(bundle, KEY))
                    assert (failed[0].part, failed[0].check) == (name, check)


# --- What the coordinator alone could do: the limits of a bundle ------------------------------------------------------


def rewritten(
    bundle: Path, party: str, change: Callable[[list[dict[str, Any]]], None], ledger_only: bool = False
) -> None:
    """The coordinator rewrites a party's ledger, its receipts and the certificate; the party's key is not used."""
    path = bundle / "ledgers" / f"{party}.txt"
    values = [json.loads(row[65:]) for row in path.read_text().splitlines()]
    change(values)
    previous, lines = "0" * 64, []
    for value in values:
        value["previous"] = previous
        lines.append(written(value))
        previous = hashlib.sha256(lines[-1].encode()).hexdigest()
    path.write_bytes(export(lines))
    if ledger_only:
        return
    certificate = payload_of((bundle / "certificate.json").read_bytes())
    entry = next(entry for entry in certificate["parties"] if entry["party"] == party)
    entry["head"] = {"hash": previous, "sequence": len(lines)}
    entry["charged"]["nano_epsilon"] = values[2]["body"]["nano_epsilon"]
    (bundle / "certificate.json").write_bytes(signed(written(certificate), "certificate"))
    receipt = bundle / "receipts" / f"{entry['release']['digest']}.json"
    said = payload_of(receipt.read_bytes()) | {"head": entry["head"]}
    receipt.write_bytes(signed(written(said), "receipt"))


def test_limit_a_ledger_is_not_signed(bundle: Path) -> None:
    """The coordinator can rewrite a mirror whole: only the party's own copy or receipts would show it."""

    def larger_budget(values: list[dict[str, Any]]) -> None:
        values[0]["body"]["nano_epsilon"] *= 2
        values[0]["time"] -= 5
        values[2]["body"]["cells"] = [7]
        values[2]["body"]["nano_epsilon"] += 1

    rewritten(bundle, "main", larger_budget)
    assert verify.verify_bundle(bundle, KEY).verified


def test_a_rewritten_ledger_misses_the_head(bundle: Path) -> None:
    """A chain that holds in itself, with all that the certificate says, but is not the one that was certified."""
    rewritten(bundle, "main", lambda values: values[0].update(time=1), ledger_only=True)
    failed = failures(verify.verify_bundle(bundle, KEY))
    assert [(check.part, check.check) for check in failed] == [("ledgers/main.txt", "head")]


def test_description_was_fixed_when_charged(bundle: Path) -> None:
    """A reservation for another description is caught even if all else was rewritten to fit."""
    rewritten(bundle, "main", lambda values: values[2]["body"].update(release="1" * 64))
    failed = failures(verify.verify_bundle(bundle, KEY))
    assert [(check.part, check.check) for check in failed] == [("ledgers/main.txt", "release")]


@pytest.mark.parametrize(
    ("field", "value"),
    [("task", "x"), ("study", "x"), ("study_hash", "1" * 64), ("release line", None), ("less", None)],
)
def test_ledger_disagrees(bundle: Path, field: str, value: str | None) -> None:
    """A ledger that was rewritten with its heads, but does not hold what the certificate says."""

    def change(values: list[dict[str, Any]]) -> None:
        if field == "release line":
            values[3]["body"]["digest"] = "1" * 64
        elif field == "less":
            values.pop()
        else:
            values[2]["body"][field] = value
            values[3]["body"]["task"] = values[2]["body"]["task"]

    rewritten(bundle, "branch-1", change)
    assert bad_parts(verify.verify_bundle(bundle, KEY)) == {"ledgers/branch-1.txt"}


def test_charge_left_out(tmp_path: Path) -> None:
    """A certificate that hides the charge, and the release, of a party that nobody learned from."""
    made = Path(shutil.copytree(VECTORS / "bundle", tmp_path / "bundle"))
    certificate = payload_of((made / "certificate.json").read_bytes())
    digest = certificate["parties"][2]["release"]["digest"]
    certificate["parties"][2] |= {"charged": None, "outcome": "failed", "release": None}
    certificate["outcome"] = "failed"
    (made / "certificate.json").write_bytes(signed(written(certificate), "certificate"))
    for shelf in ("releases", "receipts"):
        (made / shelf / f"{digest}.json").unlink()
    failed = failures(verify.verify_bundle(made, KEY))
    assert [(check.part, check.check) for check in failed] == [("ledgers/branch-2.txt", "charge")]
    assert "line 3: reserves for" in failed[0].detail


def disagrees(function: Callable[..., None], *given: Any) -> str:
    """Why two parts disagree."""
    with pytest.raises(verify.Bad) as error:
        function(*given)
    return str(error.value)


def test_parts_agree_field_by_field() -> None:
    """Each comparison of a bundle by itself: no other check hides one that was left out."""
    folder = VECTORS / "bundle"
    certificate = payload_of((folder / "certificate.json").read_bytes())
    entry = certificate["parties"][0]
    name = entry["release"]["digest"] + ".json"
    release = payload_of((folder / "releases" / name).read_bytes())
    receipt = payload_of((folder / "receipts" / name).read_bytes())
    study = json.loads((folder / "study.json").read_bytes())
    chain = verify.read_chain((folder / "ledgers" / "main.txt").read_bytes())
    verify.study_agrees(certificate, study)
    verify.release_agrees(certificate, "parties[0]", entry, release)
    verify.receipt_agrees(certificate, "parties[0]", entry, receipt)
    verify.charge_agrees(certificate, "parties[0]", entry, chain)
    for field in ("study", "title", "purpose", "method"):
        assert field in disagrees(verify.study_agrees, certificate | {field: "x"}, study)
    for field in ("sources", "targets"):
        assert "parties[" in disagrees(verify.study_agrees, certificate, study | {field: []})
    for path in (("party",), ("kind",), ("study_hash",), ("method",), ("n",), ("inputs",), ("release", "mechanism"),
                 ("release", "nano_epsilon"), ("release", "atto_delta"), ("release", "neighbours"),
                 ("code_version",)):  # fmt: skip
        changed = put(release, path, ["x"] if path == ("inputs",) else "x")
        assert shown(path) in disagrees(verify.release_agrees, certificate, "parties[0]", entry, changed)
    for path in (("party",), ("task",), ("release",), ("head", "sequence"), ("head", "hash")):
        assert shown(path) in disagrees(
            verify.receipt_agrees, certificate, "parties[0]", entry, put(receipt, path, "x")
        )
    for field in ("line", "nano_epsilon", "atto_delta"):
        changed = put(entry, ("charged", field), 7)
        assert field in disagrees(verify.charge_agrees, certificate, "parties[0]", changed, chain)
    for field in ("study", "study_hash"):
        assert field in disagrees(verify.charge_agrees, certificate | {field: "x"}, "parties[0]", entry, chain)


def test_study_fields(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study's own form is checked also where no certificate holds; its length before it is read."""
    study = json.loads((bundle / "study.json").read_bytes(), parse_float=Raw)
    (bundle / "certificate.json").write_bytes(b"{}")
    for change, field in (({"more": 1}, "more"), ({"version": 2}, "version"), ({"sources": [1]}, "sources[0]")):
        (bundle / "study.json").write_text(written(study | change))
        failed = next(f for f in failures(verify.verify_bundle(bundle, KEY)) if f.part == "study.json")
        assert failed.check == "fields"
        assert failed.detail.startswith(field)
    monkeypatch.setattr(verify, "STUDY_BYTES", 2000)
    failed = next(f for f in failures(verify.verify_bundle(bundle, KEY)) if f.part == "study.json")
    assert failed.check == "size"


def test_links_are_not_followed(bundle: Path, tmp_path: Path) -> None:
    """A bundle holds its files itself: not even a link to the very bytes is taken."""
    for name in files_of(bundle):
        shutil.move(bundle / name, tmp_path / "away")
        (bundle / name).symlink_to(tmp_path / "away")
        assert f"{name} (not a regular file)" in bad_parts(verify.verify_bundle(bundle, KEY))
        assert name in bad_parts(verify.verify_bundle(bundle, KEY)) or name in verify.FOR_PEOPLE
        shutil.move(tmp_path / "away", bundle / name)
    assert verify.verify_bundle(bundle, KEY).verified


# --- Rules, one by one ------------------------------------------------------------------------------------------------


def refused(kind: str, document: Any, party: str = "coordinator") -> str:
    """The name of the check that fails, and why."""
    report = getattr(verify, f"verify_{kind}")(signed(written(document), kind, party), KEYS[party]["public_key"])
    assert not report.verified
    return f"{failures(report)[0].check}: {failures(report)[0].detail}"


def vector(name: str) -> tuple[Any, str]:
    """A payload of envelopes.json and who signed it."""
    case = next(case for case in ENVELOPES if name in case["payload"])
    return json.loads(case["payload"], parse_float=Raw), case["signer"]


def test_release_rules() -> None:
    release, party = vector('"PST-H"')
    for change, why in (
        ({"release": release["release"] | {"composition": "sequential"}}, "composition: release.nano_epsilon"),
        ({"n": 191}, "records: n"),
        ({"level1": None}, "grids: weights"),
        ({"kind": "aggregate"}, "owner: party"),
        ({"party": "coordinator"}, "owner: party"),
        ({"inputs": release["inputs"] + release["inputs"][:1]}, "fields: inputs: has something twice"),
        ({"version": 2}, "version: version: 2: this verifier reads version 1"),
        ({"version": 0}, "this verifier reads version 1"),
        ({"version": Raw("true")}, "this verifier reads version 1"),
        ({"weights": []}, "fields: weights: has 0 items"),
        ({"n": 2**53}, "payload"),
    ):
        assert why.split("payload")[0] in refused("release", release | change, party), change
    seeded = copy.deepcopy(release)
    seeded["release"]["seeded"] = True
    assert "composition: release.seeded" in refused("release", seeded, party)
    seeded["release"]["parts"][0]["seeded"] = True
    assert "seeded: release.seeded" in refused("release", seeded, party)
    for grid in (Raw("0.3"), 0, -1, Raw("1e+300"), Raw("0.000030517578124"), True, "1"):
        odd = copy.deepcopy(release)
        odd["release"]["parts"][0]["parameters"]["groups"][0]["grid"] = grid
        assert "release.parts[0].parameters.groups[0].grid" in refused("release", odd, party)
    for step in (2**52, -(2**52), Raw("0.5"), "1"):
        odd = copy.deepcopy(release)
        odd["weights"][1]["steps"][3] = step
        assert "weights[1].steps[3]" in refused("release", odd, party)
    odd["weights"][1]["steps"] = [0] * 10_002
    assert "weights[1].steps: has 10,002 items" in refused("release", odd, party)


def test_sequential_composition() -> None:
    release, party = vector('"PST-H"')
    release["release"]["composition"] = "sequential"
    release["release"]["nano_epsilon"] = 10**9
    release["release"]["atto_delta"] = 10**16
    assert "composition: release.atto_delta" not in refused("release", release, party)  # a large number outside a text
    release["release"]["atto_delta"] = "9007199254740994"
    for part in release["release"]["parts"]:
        part["atto_delta"] = 4503599627370497
    assert "records: n" in refused("release", release, party)
    release["n"] = 144
    report = verify.verify_release(signed(written(release), "release", party), KEYS[party]["public_key"])
    assert report.verified
    assert "delta 0.009007199254740994" in report.facts[0]


def test_aggregate_rules() -> None:
    release, _ = vector('"aggregate"')
    assert "aggregate: release.parts" in refused("release", release | {"inputs": release["inputs"][:1]})
    assert "records: n" in refused("release", release | {"n": 687})
    sequential = release["release"] | {"composition": "sequential", "nano_epsilon": 10**9}
    assert "aggregate: release.composition" in refused("release", release | {"release": sequential})
    one = release["release"]["parts"][0]
    assert "aggregate: release.composition" in refused("release", release | {"release": one})


@pytest.mark.parametrize("mechanism", verify.MECHANISMS)
def test_mechanisms_have_exactly_their_parameters(mechanism: str) -> None:
    """The names of the page's table, no more and no fewer."""
    page = (VECTORS.parent / "protocol.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{mechanism}`"))
    names = re.findall("`([a-z_]+)`", row.split("|")[2].split(";")[0])
    with pytest.raises(verify.Bad) as error:
        verify.MECHANISMS[mechanism]({name: {} for name in names})
    assert "unknown" not in str(error.value)
    assert "missing" not in str(error.value)
    for name in names:
        with pytest.raises(verify.Bad, match="unknown"):
            verify.MECHANISMS[mechanism]({**dict.fromkeys(names, 0), f"{name}_": 0})


def test_receipt_rules() -> None:
    receipt, _ = vector('"head"')
    assert "release: release" in refused("receipt", receipt | {"task": "ledger"})
    for head in ({"hash": "0" * 64, "sequence": 3}, {"hash": "1" * 64, "sequence": 0}):
        assert "head: head" in refused("receipt", receipt | {"head": head})
    assert "head: head" in refused("receipt", receipt | {"party": "coordinator"})
    for moment in (
        "2026-02-29T12:00:00.000000Z",
        "2026-01-31T24:00:00.000000Z",
        "2026-01-31T12:00:60.000000Z",
        "2026-01-31T12:00:00.00000Z",
        "2026-01-31T12:00:00.000000+00:00",
        "0000-01-01T00:00:00.000000Z",
        "2026-01-31T12:00:00.000000Z\n",
        "\uff12026-01-31T12:00:00.000000Z",
    ):
        assert "fields: time" in refused("receipt", receipt | {"time": moment})
    only_lines = receipt | {"task": "ledger", "release": None}
    assert verify.verify_receipt(signed(written(only_lines), "receipt"), KEY).verified


def test_certificate_rules() -> None:
    certificate, _ = vector('"cert-')
    one, two = KEYS["main"], KEYS["branch-1"]
    for path, value, why in (
        (("started",), "2026-01-31T13:00:00.000000Z", "times: started"),
        (("id",), "cert-0", "id: id"),
        (("parties", 0, "outcome"), "late", "inputs: parties[2].release.learned_from[1]"),
        (("parties", 0, "outcome"), "failed", "outcomes: parties[0].outcome"),
        (("parties", 2, "charged"), None, "charges: parties[2].charged"),
        (("parties", 2, "charged", "line"), 5, "charges: parties[2].charged.line"),
        (("parties", 2, "charged", "nano_epsilon"), 499999999, "charges: parties[2].charged.nano_epsilon"),
        (("parties", 0, "release", "public_key"), two["public_key"], "keys: parties[0].release.public_key"),
        (("parties", 0, "release", "public_key"), None, "owners: parties[0].release.public_key"),
        (("parties", 0, "release", "public_key"), one["public_key"][:-1] + "V", "fields: parties[0].release.public"),
        (("parties", 0, "party"), "coordinator", "tasks: parties[0].task"),
        (("parties", 1), certificate["parties"][0], "tasks: parties[1].task: is given twice"),
        (("parties", 1, "release", "digest"), certificate["parties"][0]["release"]["digest"], "digests: parties[1]"),
        (("parties", 1, "release", "atto_delta"), "1", "fields: parties[1].release.atto_delta"),
        (("parties", 1, "release", "atto_delta"), "1000000000000000000", "fields: parties[1].release.atto_delta"),
        (("parties", 1, "release", "atto_delta"), 1, "charges: parties[1].charged.atto_delta"),
    ):
        assert why in refused("certificate", put(certificate, path, value)), path
    shared = put(certificate, ("parties", 0, "release", "public_key"), two["public_key"])
    shared = put(shared, ("parties", 0, "release", "signed_by"), two["key_id"])
    assert "keys: parties[1].release.signed_by: this key is main's" in refused("certificate", shared)
    own = put(certificate, ("parties", 0, "release", "public_key"), KEY)
    own = put(own, ("parties", 0, "release", "signed_by"), KEYS["coordinator"]["key_id"])
    assert "signers: parties[0].release.signed_by" in refused("certificate", own)


def test_certificate_of_an_aggregate() -> None:
    certificate = payload_of((VECTORS / "bundle-aggregate" / "certificate.json").read_bytes())
    head, charged = certificate["parties"][0]["head"], certificate["parties"][0]["charged"]
    two, three = certificate["parties"][2:]

    def task(rest: str) -> str:
        return f"{certificate['study_hash'][:32]}.{rest}"

    for path, value, why in (
        (("parties", 2, "head"), head, "owners: parties[2].head"),
        (("parties", 2, "charged"), charged, "owners: parties[2].charged"),
        (("parties", 2, "release", "records"), 1, "owners: parties[2].release.records"),
        (("parties", 2, "release", "nano_epsilon"), 1, "inputs: parties[2].release.nano_epsilon"),
        (("parties", 2, "release", "signed_by"), "0" * 16, "signers: parties[2].release.signed_by"),
        (("parties", 2, "release", "learned_from"), [], "inputs: parties[2].release.nano_epsilon"),
        (("parties", 2), two | {"party": "main", "task": task("aggregate.main")}, "owners: parties[2].party"),
        (("parties", 3), three | {"kind": "aggregate", "task": task("aggregate.branch-2")}, "owners: parties[3].party"),
        (("parties", 3, "outcome"), "late", "outcomes: parties[3].outcome"),
        (("parties", 3, "charged"), charged, "charges: parties[3].charged.line"),
    ):
        assert why in refused("certificate", put(certificate, path, value)), path


def test_envelope_rules() -> None:
    good = ENVELOPES[0]["envelope"]
    public = KEYS[ENVELOPES[0]["signer"]]["public_key"]
    envelope = json.loads(good)
    signature = envelope["signatures"][0]
    for change, check in (
        ({"payload": envelope["payload"][:-1]}, "payload base64"),
        ({"payload": envelope["payload"] + "===="}, "envelope fields"),
        ({"payload": "="}, "payload base64"),
        ({"payload": "AB=="}, "payload base64"),
        ({"payload": "AAB="}, "payload base64"),
        ({"payload": "A-_="}, "envelope fields"),
        ({"payload": ""}, "signature"),
        ({"payloadType": "application/vnd.crossward.receipt+json"}, "payload type"),
        ({"signatures": []}, "envelope fields"),
        ({"signatures": [signature, signature]}, "envelope fields"),
        ({"signatures": [signature | {"sig": "AAAA"}]}, "signature"),
        ({"signatures": [signature | {"keyid": "0" * 16}]}, "key id"),
        ({"signatures": [signature | {"more": 1}]}, "envelope fields"),
        ({"more": 1}, "envelope fields"),
    ):
        report = verify.verify_release(written(envelope | change).encode(), public)
        assert failures(report)[0].check == check, (change, report.failure)
    for data in (good + "\n\n", " " + good, good + "\r\n", "\ufeff" + good, good[:-1], "", "\n"):
        assert failures(verify.verify_release(data.encode(), public))[0].check == "envelope", data[-5:]
    assert verify.verify_release(good.encode() + b"\n", public, ENVELOPES[0]["digest"]).verified
    assert failures(verify.verify_release(good.encode(), public, "1" * 64))[0].check == "digest"


def line(kind: str = "open", **body: Any) -> str:
    """A first line of a ledger."""
    bodies = {
        "open": {"version": 1, "cells": 3, "filter": "basic", "nano_epsilon": 5, "atto_delta": 0},
        "seats": {"version": 1, "commitment": "0" * 64},
        "reserve": {"task": "t", "study": "s", "study_hash": "0" * 64, "cells": [0], "nano_epsilon": 1,
                    "atto_delta": 0, "release": "0" * 64},
        "recover": {"number": 1},
    }  # fmt: skip
    return written({"sequence": 1, "previous": "0" * 64, "kind": kind, "time": 0, "body": bodies[kind] | body})


def test_ledger_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify.verify_ledger(export([line()])).verified
    assert verify.verify_ledger(b"").verified
    for body, path in (
        ({"version": 0}, "line 1.body.version"),
        ({"version": "1"}, "line 1.body.version"),
        ({"dataset": "d"}, "line 1.body.dataset"),
        ({"cells": 0}, "line 1.body.cells"),
        ({"cells": 1001}, "line 1.body.cells"),
        ({"filter": "none"}, "line 1.body.filter"),
        ({"filter": "zcdp"}, "line 1.body.atto_delta"),
        ({"nano_epsilon": 10**11 + 1}, "line 1.body.nano_epsilon"),
        ({"nano_epsilon": -1}, "line 1.body.nano_epsilon"),
        ({"atto_delta": 10**15 + 1}, "line 1.body.atto_delta"),
        ({"atto_delta": "10000000000000000"}, "line 1.body.atto_delta"),
        ({"more": 1}, "line 1.body.more"),
    ):
        assert f"lines: {path}" in str(verify.verify_ledger(export([line(**body)])).failure), body
    assert verify.verify_ledger(export([line(nano_epsilon=10**11, atto_delta=10**15)])).verified
    for kind, name, values in (
        ("seats", "version", (0, True, None, 2**53)),
        ("seats", "commitment", ("", "A" * 64, None)),
        ("recover", "number", (0, -1, 0.5, "1")),
        ("reserve", "dataset", ("d",)),
        ("reserve", "task", ("", "x" * 201, "a b")),
        ("reserve", "atto_delta", (10**16, "01000000000000000", "1000000000000000001")),
    ):
        for value in values:
            failure = str(verify.verify_ledger(export([line(kind, **{name: value})])).failure)
            assert f"lines: line 1.body.{name}" in failure, (kind, name, value)
    for cells in ([], [1, 0], [0, 0], [-1], [1000], [True], 0, None):
        assert "line 1.body.cells" in str(verify.verify_ledger(export([line("reserve", cells=cells)])).failure), cells
    for change in ({"time": 10**14 + 1}, {"sequence": 2}, {"previous": "1" * 64}, {"kind": "close"}, {"more": 1}):
        changed = written(json.loads(line()) | change)
        assert f"line 1.{next(iter(change))}" in str(verify.verify_ledger(export([changed])).failure)
    good = export([line()])
    assert "line 1: has no line break" in str(verify.verify_ledger(good[:-1]).failure)
    for wrong in (b"1" * 64 + good[64:], good[:64].upper() + good[64:], good[:64] + b"\t" + good[65:], good[1:]):
        assert "line 1: does not begin with the hash of its bytes" in str(verify.verify_ledger(wrong).failure)
    monkeypatch.setattr(verify, "LEDGER_BYTES", len(good))
    assert verify.verify_ledger(good).verified
    assert failures(verify.verify_ledger(good * 2))[0].check == "size"
    monkeypatch.undo()
    long = line("reserve", task="x" * 70_000)
    assert "65,536" in str(verify.verify_ledger(export([long])).failure)


# --- Bytes flipped, files and lines moved -----------------------------------------------------------------------------


def flipped(data: bytes, positions: Any) -> Iterator[bytes]:
    """The bytes with one bit turned at each position."""
    for position in positions:
        yield data[:position] + bytes([data[position] ^ (1 << random.randrange(8))]) + data[position + 1 :]


def test_flips_in_each_part(bundle: Path) -> None:
    """One bit of any byte: each part alone, all positions of small files and 300 of larger."""
    random.seed(20260131)
    for name in files_of(bundle):
        data, kind = (bundle / name).read_bytes(), name.split("/")[0].removesuffix(".json").rstrip("s")
        if kind in ("study", "certificate.txt"):
            continue
        positions = range(len(data)) if len(data) < 1300 else random.sample(range(len(data)), 300)
        head = (4, data.splitlines()[-1][:64].decode())
        digest = name.split("/")[-1].removesuffix(".json")
        public = KEY if kind == "ledger" else KEYS[signer_of(data)]["public_key"]
        for broken in flipped(data, positions):
            if kind == "ledger":
                assert not verify.verify_ledger(broken, head).verified
            elif kind == "release":
                assert not verify.verify_release(broken, public, digest).verified
            else:
                assert not getattr(verify, f"verify_{kind}")(broken, public).verified


def test_flips_in_a_bundle(bundle: Path) -> None:
    """The file with the flipped bit is named, and only that one; but of a broken certificate no release is left."""
    random.seed(7)
    for name in files_of(bundle):
        data = (bundle / name).read_bytes()
        for broken in flipped(data, [0, len(data) - 1, *random.sample(range(len(data)), 8)]):
            with Changed(bundle / name, broken):
                report = verify.verify_bundle(bundle, KEY)
            if name in verify.FOR_PEOPLE:
                assert report.verified  # and said to be not verified
            else:
                assert bad_parts(report) == {name, "releases"} if name == "certificate.json" else {name}


def test_files_missing_swapped_cut_added(bundle: Path) -> None:
    names = [name for name in files_of(bundle) if name not in verify.FOR_PEOPLE]
    for name in names:
        path, data = bundle / name, (bundle / name).read_bytes()
        path.unlink()
        assert name in bad_parts(verify.verify_bundle(bundle, KEY)), name
        path.mkdir()
        assert name in bad_parts(verify.verify_bundle(bundle, KEY)), name
        path.rmdir()
        path.symlink_to(path)
        assert name in bad_parts(verify.verify_bundle(bundle, KEY)), name
        path.unlink()
        path.write_bytes(data)
        for cut in (data[:-1], data[: len(data) // 2], b"", data + b"x", data * 2):
            with Changed(path, cut):
                assert name in bad_parts(verify.verify_bundle(bundle, KEY)), name
        for other in random.sample(names, 4):
            if other != name and (bundle / other).read_bytes() != data:
                with Changed(path, (bundle / other).read_bytes()):
                    assert name in bad_parts(verify.verify_bundle(bundle, KEY)), (name, other)
    for name in (
        "more.json",
        "releases/x.json",
        f"releases/{'1' * 64}.json",
        f"receipts/{'1' * 64}.json",
        "ledgers/nobody.txt",
        "ledgers/coordinator.txt",
        ".hidden",
        "releases/.x",
        "a\x1b[31m\n.txt",
    ):
        (bundle / name).write_bytes(b"x")
        report = verify.verify_bundle(bundle, KEY)
        assert bad_parts(report) == {name, "bundle"}, name
        assert "\x1b" not in verify.as_text(report)
        assert "\x1b" not in verify.as_json(report)
        (bundle / name).unlink()
    (bundle / "more").mkdir()
    assert "more (not a regular file)" in bad_parts(verify.verify_bundle(bundle, KEY))
    (bundle / "more").rmdir()
    (bundle / "verify.py").mkdir()
    assert "verify.py (not a regular file)" in bad_parts(verify.verify_bundle(bundle, KEY))


def test_all_broken_parts_are_listed(bundle: Path) -> None:
    broken = [name for name in files_of(bundle) if name.startswith(("releases", "receipts", "ledgers", "study"))]
    for name in broken:
        (bundle / name).write_bytes((bundle / name).read_bytes()[:-3])
    assert bad_parts(verify.verify_bundle(bundle, KEY)) == set(broken)


def test_lines_missing_swapped_cut(bundle: Path) -> None:
    for path in sorted((bundle / "ledgers").iterdir()):
        rows = path.read_bytes().splitlines(keepends=True)
        for wrong in (rows[:-1], rows[1:], rows[:1] + rows[2:], [rows[0], rows[2], rows[1]], rows + rows[-1:],
                      [*rows, b"\n"], [b"\n", *rows], [*rows, rows[0]], [row.replace(b"\n", b"\r\n") for row in rows],
                      [row.upper() for row in rows], [row.replace(b" ", b"  ", 1) for row in rows], []):  # fmt: skip
            with Changed(path, b"".join(wrong)):
                assert bad_parts(verify.verify_bundle(bundle, KEY)) == {f"ledgers/{path.name}"}
        more = json.loads(line("seats", version=2)) | {"sequence": 5, "previous": rows[-1][:64].decode()}
        with Changed(path, path.read_bytes() + export([written(more)])):
            assert verify.verify_bundle(bundle, KEY).verified  # a ledger may have grown since


def test_two_bundles_mixed(tmp_path: Path) -> None:
    """Parts of one study do not serve another, though the same parties signed them."""
    made = Path(shutil.copytree(VECTORS / "bundle", tmp_path / "mixed"))
    for name in ("ledgers/main.txt", "study.json"):
        with Changed(made / name, (VECTORS / "bundle-aggregate" / name).read_bytes()):
            assert bad_parts(verify.verify_bundle(made, KEY)) == {name}
    with Changed(made / "certificate.json", (VECTORS / "bundle-aggregate" / "certificate.json").read_bytes()):
        assert not verify.verify_bundle(made, KEY).verified


# --- Hostile input ----------------------------------------------------------------------------------------------------

MIB = 2**20
HOSTILE = {
    "nothing": b"",
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep and closed": b"[" * 5000 + b"]" * 5000,
    "many digits": b"[" + b"9" * MIB + b"]",
    "many decimals": b"[0." + b"1" * MIB + b"]",
    "huge exponent": b"[1e" + b"9" * MIB + b"]",
    "not UTF-8": b'{"\xff":1}',
    "a surrogate": b'["\xed\xa0\x80"]',
    "overlong": b'["\xc0\x80"]',
    "half an escape": b'["\\u00',
    "an open text": b'["' + b"a" * MIB,
    "many escapes, open": b'["' + b"\\n" * MIB,
    "zeros": b"\0" * MIB,
    "many empty lists": b"[" + b"[]," * (MIB // 8) + b"[]]",
    "many empty texts": b"[" + b'"",' * (MIB // 8) + b'""]',
    "numbers, then a blank": b"[" + b"1," * MIB + b" 1]",
    "a number": b"1",
    "a text": b'"x"',
    "null": b"null",
    "truth": b"true",
    "a list": b"[]",
    "an object": b"{}",
    "line breaks": b"\n" * MIB,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile(data: bytes, tmp_path: Path) -> None:
    """As a file, and as a signed payload: a named failed check."""
    for kind in ("certificate", "release", "receipt"):
        for given in (data, signed(data, kind)):
            report = getattr(verify, f"verify_{kind}")(given, KEY)
            assert len(failures(report)) == 1
            assert not report.facts
            assert len(verify.as_text(report)) < 5000
    for given in (data, hashlib.sha256(data).hexdigest().encode() + b" " + data + b"\n"):
        assert verify.verify_ledger(given).verified == (given == b"")
    made = Path(shutil.copytree(VECTORS / "bundle", tmp_path / "bundle"))
    (made / "study.json").write_bytes(data)
    assert bad_parts(verify.verify_bundle(made, KEY)) == {"study.json"}


def test_largest_payload() -> None:
    """32 MiB of steps, the most that may be sent, are read and refused for what they are; one byte more is refused."""
    release, party = vector('"PST-H"')
    text = written(release | {"weights": [{"grid": -15, "steps": Raw("[@]")}]})
    steps = ("7," * (16 * MIB))[: 32 * MIB - len(text) - 2]
    payload = text.replace("@", steps.rstrip(",") + ",77"[: 3 - len(steps) % 2])
    report = verify.verify_release(signed(payload, "release", party), KEYS[party]["public_key"])
    assert "weights[0].steps: has 16," in str(report.failure)
    report = verify.verify_release(signed(payload + " " * 20, "release", party), KEYS[party]["public_key"])
    assert failures(report)[0].check == "payload size"
    report = verify.verify_release(b" " * (64 * MIB + 1), KEY)
    assert failures(report)[0].check == "size"


@pytest.mark.parametrize("piece", [b"[],", b'{"a":0},'])
def test_memory_is_bounded(piece: bytes, tmp_path: Path) -> None:
    """A payload of 32 MiB that is made of small things ends in a named check, within 600 MiB in all."""
    payload = b"[" + (piece * (32 * MIB // len(piece)))[: 32 * MIB - 1]
    (tmp_path / "big").write_bytes(signed(payload, "release"))
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (600 * MIB, 600 * MIB))  # noqa: E731
    done = run("release", tmp_path / "big", "--key", KEY, preexec_fn=limit)
    assert done.returncode == 1, done.stderr
    assert "payload: more than 1,000,000 objects" in done.stdout


def test_texts_are_escaped() -> None:
    """What a certificate says cannot steer a terminal."""
    certificate, _ = vector('"cert-')
    evil = "\x1b]0;x\x07\u202e\n\x7f\x9b é"
    data = signed(written(certificate | {"title": evil, "purpose": evil}), "certificate")
    report = verify.verify_certificate(data, KEY)
    assert report.verified
    shown_text = verify.as_text(report)
    assert "é" in shown_text
    assert all(c == "\n" or c.isprintable() for c in shown_text)
    assert shown_text.count("\n") == verify.as_text(
        verify.verify_certificate(signed(written(certificate), "certificate"), KEY)
    ).count("\n")
    report = verify.verify_certificate(signed(written(certificate | {evil: 1}), "certificate"), KEY)
    assert "unknown" in str(report.failure)
    assert "\x1b" not in verify.as_text(report)


@pytest.mark.parametrize(
    "key", ["", "x", KEY[:-1], KEY + "A", KEY[:-1] + "J", KEY.replace("-", "+"), "\udcff" * 43, KEY + "\n"]
)
def test_wrong_keys(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(verify.Usage):
        verify.verify_certificate(b"", key)
    assert verify.main(["bundle", str(tmp_path), "--key", key]) == 2
    assert capsys.readouterr().out == ""


def test_small_order_keys() -> None:
    """A key that is no point, or a small one, verifies nothing that a party signed."""
    for raw in (bytes(32), b"\x01" + bytes(31), b"\xff" * 32):
        key = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        assert not verify.verify_release(ENVELOPES[0]["envelope"].encode(), key).verified


# --- Command line -----------------------------------------------------------------------------------------------------


def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the file as a program."""
    command = [sys.executable, "-B", str(verify.__file__), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, **options)


def test_command_line(tmp_path: Path) -> None:
    good = VECTORS / "bundle"
    done = run("bundle", good, "--key", KEY)
    assert done.returncode == 0
    assert not done.stderr
    assert "\nok    certificate.json: signed by key 6aed28715e892d6e over its 2,496 bytes\n" in done.stdout
    assert re.search(r"^verified: \d+ checks$", done.stdout, re.M)
    assert "note  certificate.txt: not verified: for people" in done.stdout
    told = json.loads(run("bundle", good, "--key", KEY, "--json").stdout)
    assert told["verified"] is True
    assert told["failure"] is None
    assert set(told) == {"verified", "checks", "failure"}
    assert all(set(check) == {"part", "check", "ok", "detail"} for check in told["checks"])
    release = next((good / "releases").iterdir())
    public = KEYS[signer_of(release.read_bytes())]["public_key"]
    last = (good / "ledgers" / "main.txt").read_text().splitlines()[-1]
    for arguments in (
        ("certificate", good / "certificate.json", "--key", KEY),
        ("receipt", good / "receipts" / release.name, "--key", KEY),
        ("release", release, "--key", public, "--digest", release.stem),
        ("ledger", good / "ledgers" / "main.txt"),
        ("ledger", good / "ledgers" / "main.txt", "--head", f"4:{last[:64]}"),
    ):  # fmt: skip
        assert run(*arguments).returncode == 0
    wrong = run("ledger", good / "ledgers" / "main.txt", "--head", "5:" + "1" * 64)
    assert wrong.returncode == 1
    assert "NOT verified: ledger: head: the ledger ends at line 4" in wrong.stdout
    wrong = run("certificate", good / "study.json", "--key", KEY, "--json")
    assert wrong.returncode == 1
    assert "envelope fields" in json.loads(wrong.stdout)["failure"]


def test_command_line_called_wrongly(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    os.mkfifo(tmp_path / "pipe")
    for arguments in (
        (),
        ("bundle", VECTORS / "bundle"),
        ("bundle", tmp_path / "none", "--key", KEY),
        ("bundle", VECTORS / "keys.json", "--key", KEY),
        ("bundle", loop, "--key", KEY),
        ("certificate", loop, "--key", KEY),
        ("certificate", tmp_path, "--key", KEY),
        ("certificate", tmp_path / "none", "--key", KEY),
        ("certificate", tmp_path / "pipe", "--key", KEY),
        ("ledger", "/dev/zero"),
        ("certificate", VECTORS / "bundle" / "certificate.json", "--key", "x"),
        ("ledger", VECTORS / "bundle" / "ledgers" / "main.txt", "--head", "3"),
        ("release", VECTORS / "bundle" / "certificate.json", "--key", KEY, "--digest", "x"),
    ):
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert not done.stdout
        assert "Traceback" not in done.stderr
    assert f"example: python verify.py bundle study/ --key {KEY}" in run("--help").stdout
    dash = run("certificate", VECTORS / "bundle" / "certificate.json", "--key", "-" + KEY[1:])
    assert dash.returncode == 1
    assert "key id" in dash.stdout


def test_output_in_a_poor_terminal(tmp_path: Path) -> None:
    """A title that the terminal cannot write does not end in a traceback."""
    certificate, _ = vector('"cert-')
    data = signed(written(certificate | {"title": "é €"}), "certificate")
    (tmp_path / "certificate.json").write_bytes(data)
    done = run("certificate", tmp_path / "certificate.json", "--key", KEY, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert r'"\xe9 \u20ac"' in done.stdout
    assert not done.stderr
