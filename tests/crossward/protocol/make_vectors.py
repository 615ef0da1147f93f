"""Writes docs/vectors/ anew: `PYTHONPATH=tests/support python tests/crossward/protocol/make_vectors.py`.

Keys and times are fixed; the models of the bundles are trained with fresh noise, so their bytes differ from run to run.
The stored files are what counts: tests read them, and never make them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from bundles import key_of, run
from crossward.privacy.budget import Budget
from crossward.privacy.filters import ZcdpFilter
from crossward.protocol import keys
from crossward.protocol.canonical import canonical
from crossward.protocol.certificate import SignedCertificate
from crossward.protocol.envelopes import SignedReceipt, SignedRelease, to_sign
from crossward.protocol.ledger.lines import (
    START,
    Body,
    Line,
    OpenBody,
    RecoverBody,
    ReleaseBody,
    ReserveBody,
    SeatsBody,
)
from crossward.study import study_for
from crossward_lab.simulate.hospitals import Federation
from crossward_service.http.signing import Signer

FOLDER = Path(__file__).parents[3] / "docs" / "vectors"
ZEROS, ONES = "0" * 64, "1" * 64

SPELLED: list[Any] = [
    None,
    True,
    "",
    [],
    {},
    {"b": 1, "a": [1, 2.5, "x"], "": False},
    {"€": 1, "\r": 2, "\ufb33": 3, "1": 4, "😀": 5, "\x80": 6, "ö": 7},
    'quote " backslash \\ slash / newline \n tab \t return \r bell \x07 null \x00 delete \x7f é € 😀 \u2028',
    [0, 0.0, -0.0, 1.0, -1, 1e21, 1e20, 123456789012345680000.0, 1e-6, 1e-7, 1.5e-6, 0.1, 1e300, 5e-324],
    [2**53 - 1, -(2**53) + 1, 333333333.33333329, 4.5, 2e-3, 1e23, 9007199254740994.0],
    [2**53, 10**18, -(2**53)],
]
REFUSED = {
    "a blank": '{"a": 1}',
    "a blank at the end": "[1] ",
    "a line break inside": "[1,\n2]",
    "keys out of order": '{"b":1,"a":2}',
    "keys by code points, not by UTF-16": '{"\ufb33":1,"😀":2}',
    "a key twice": '{"a":1,"a":1}',
    "a whole number with a point": "[1.0]",
    "a whole number with an exponent": "[1e2]",
    "minus zero": "[-0]",
    "minus zero with a point": "[-0.0]",
    "digits that name no other double": "[0.10000000000000000001]",
    "a large exponent": "[1e21]",
    "an exponent in capitals": "[1E+21]",
    "a small number without exponent": "[0.0000001]",
    "a whole number beyond 2^53 - 1 that is no double": "[9007199254740993]",
    "too large for a double": "[1e999]",
    "NaN": "[NaN]",
    "infinity": "[Infinity]",
    "a leading zero": "[01]",
    "a plus sign": "[+1]",
    "an escaped letter": r'["\u0061"]',
    "an escaped slash": r'["\/"]',
    "a control character in capitals": r'["\u001F"]',
    "a line break as a number": r'["\u000a"]',
    "half a surrogate pair": r'["\ud83d"]',
    "an escaped pair": r'["\ud83d\ude00"]',
    "a byte order mark": "\ufeff[]",
    "nothing": "",
    "two values": "[][]",
    "a comma too many": "[1,]",
    "single quotes": "['a']",
}


def _write(name: str, value: Any) -> None:
    (FOLDER / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _canonical() -> None:
    taken = [
        {"bytes": base64.b64encode(canonical(value)).decode(), "text": canonical(value).decode()} for value in SPELLED
    ]
    refused = [{"why": why, "bytes": base64.b64encode(text.encode()).decode()} for why, text in REFUSED.items()]
    refused.append({"why": "not UTF-8", "bytes": base64.b64encode(b'["\xff"]').decode()})
    _write("canonical.json", {"taken": taken, "refused": refused})


def _keys() -> None:
    _write(
        "keys.json",
        [
            {
                "party": party,
                "seed": hashlib.sha256(f"crossward test key: {party}".encode()).hexdigest(),
                "public_key": keys.public_text(key_of(party)),
                "key_id": keys.key_id(key_of(party)),
            }
            for party in ("coordinator", "main", "branch-1", "branch-2")
        ],
    )


def _envelope(signed: SignedRelease | SignedReceipt | SignedCertificate, signer: str) -> dict[str, Any]:
    payload = signed.content().payload
    return {
        "signer": signer,
        "payload": payload.decode(),
        "digest": signed.digest,
        "signed_bytes": base64.b64encode(to_sign(signed.payloadType, payload)).decode(),
        "envelope": signed.canonical().decode(),
    }


def _chain(*bodies: Body) -> list[Line]:
    lines: list[Line] = []
    for number, body in enumerate(bodies):
        lines.append(Line.after(lines[-1].head if lines else START, body, 1_769_860_800_000 + number))
    return lines


def _ledger() -> None:
    opened, seats = OpenBody(1, 3, "basic", 10**9, 10**12), SeatsBody(1, ONES)
    concentrated = OpenBody(1, 2, "zcdp", 10**9, 10**12)
    more, again, lost = OpenBody(2, 3, "basic", 2 * 10**9, 10**12), SeatsBody(2, ZEROS), RecoverBody(1)

    def reserve(task: str, cells: tuple[int, ...] = (0, 1), nano: int = 10**8, atto: int = 0) -> ReserveBody:
        return ReserveBody(task, "study", ZEROS, cells, nano, atto, ONES)

    def charged(*bodies: Body) -> list[Line]:
        return _chain(opened, seats, *bodies)

    limit = ZcdpFilter(Budget(10**9, 10**12)).limit
    largest = int((2 * limit) ** 0.5)
    while -(-((largest + 1) ** 2) // 2) <= limit:
        largest += 1
    while -(-(largest**2) // 2) > limit:
        largest -= 1
    half, whole, recovered = 5 * 10**8, 10**9, (reserve("a", (0,), 5 * 10**8, 10**12), lost)
    taken = {
        "every kind": charged(reserve("a"), ReleaseBody("a", ONES), lost, again, reserve("b"), ReleaseBody("b", ONES)),
        "disjoint cells pay once": charged(reserve("a", (0, 1), whole), reserve("b", (2,), whole)),
        "up to the last nano-epsilon": charged(reserve("a", nano=999_999_999), reserve("b", nano=1)),
        "zcdp up to its limit": _chain(concentrated, seats, reserve("a", (0,), largest)),
        "the largest budget": _chain(OpenBody(1, 1000, "zcdp", 10**11, 10**15), seats, reserve("a", (999,), whole)),
        "another budget before the first charge": charged(again, more, reserve("a", nano=2 * whole)),
        "another filter before the first charge": charged(
            OpenBody(2, 3, "zcdp", whole, 1), lost, again, reserve("a", nano=1)
        ),
        "many versions of the seats": charged(*(SeatsBody(version, ZEROS) for version in range(2, 12)), reserve("a")),
        "recovered, every cell has what the largest left": charged(*recovered, again, reserve("b", (1, 2), half)),
        "released before the seats were lost": charged(reserve("a"), ReleaseBody("a", ONES), lost, RecoverBody(2)),
    }
    refused = {
        "one nano-epsilon too many": (charged(reserve("a", nano=whole), reserve("b", (1, 2), 1)), 4),
        "one atto-delta too many": (charged(reserve("a", atto=10**12), reserve("b", (0,), atto=1)), 4),
        "a delta beyond 2^53 - 1": (charged(reserve("a", atto=10**16)), 3),
        "zcdp, one nano-epsilon too many": (_chain(concentrated, seats, reserve("a", (0,), largest + 1)), 3),
        "zcdp takes no delta": (_chain(concentrated, seats, reserve("a", (0,), 1, 1)), 3),
        "a budget twice": (_chain(opened, opened), 2),
        "a gap in the versions of the budget": (_chain(opened, OpenBody(3, 3, "basic", whole)), 2),
        "a budget that does not begin with version 1": (_chain(more), 1),
        "another budget after the first charge": (charged(reserve("a"), more), 4),
        "another budget after a charge and a recovery": (charged(reserve("a"), lost, more), 5),
        "another number of cells": (_chain(opened, OpenBody(2, 4, "basic", whole)), 2),
        "seats before a budget": (_chain(seats), 1),
        "seats twice": (charged(seats), 3),
        "a gap in the versions of the seats": (charged(SeatsBody(3, ONES)), 3),
        "a charge before a budget": (_chain(reserve("a")), 1),
        "a charge before the seats": (_chain(opened, reserve("a")), 2),
        "a charge after the seats were lost": (charged(lost, reserve("a")), 4),
        "a recovery before a budget": (_chain(lost), 1),
        "a recovery twice": (charged(lost, lost), 4),
        "a gap in the recoveries": (charged(RecoverBody(2)), 3),
        "recovered, more than the largest left": (charged(*recovered, again, reserve("b", (2,), half + 1)), 6),
        "recovered, more delta than the largest left": (charged(*recovered, again, reserve("b", (2,), 1, 1)), 6),
        "a release that was charged before the seats were lost": (
            charged(reserve("a"), lost, again, ReleaseBody("a", ONES)),
            6,
        ),
        "a cell that is not there": (charged(reserve("a", (3,))), 3),
        "a task twice": (charged(reserve("a"), reserve("a")), 4),
        "a release without a reservation": (charged(ReleaseBody("a", ONES)), 3),
        "two releases": (charged(reserve("a"), ReleaseBody("a", ONES), ReleaseBody("a", ZEROS)), 5),
        "a line left out": (_chain(opened, seats, reserve("a"))[::2], 2),
    }
    _write(
        "ledger.json",
        {
            "taken": [
                {"what": what, "lines": [line.text for line in lines], "hashes": [line.hash for line in lines]}
                for what, lines in taken.items()
            ],
            "refused": [
                {"why": why, "line": number, "lines": [line.text for line in lines]}
                for why, (lines, number) in refused.items()
            ],
        },
    )


def _zcdp() -> None:
    budgets = [(10**9, 10**12), (1, 1), (10**15, 10**18 - 1), (5 * 10**9, 10**13), (0, 5), (123_456_789, 987_654_321)]
    _write(
        "zcdp.json",
        [
            {"nano_epsilon": epsilon, "atto_delta": str(delta), "limit": str(ZcdpFilter(Budget(epsilon, delta)).limit)}
            for epsilon, delta in budgets
        ],
    )


def _request() -> None:
    key = key_of("main")
    signer = Signer("main", keys.key_id(key), key, clock=lambda: 1_769_860_800)
    body = canonical({"task": "t"})
    cases = [("POST", "/v1/tasks/next", "wait=30&protocol=1", b""), ("POST", "/v1/tasks/t/heartbeat", "", body)]
    _write(
        "requests.json",
        [
            {"method": m, "path": p, "query": q, "body": b.decode(), "headers": signer.headers(m, p, q, b)}
            for m, p, q, b in cases
        ],
    )


def main() -> None:
    """Write every file."""
    for name in ("bundle", "bundle-aggregate"):
        shutil.rmtree(FOLDER / name, ignore_errors=True)
    FOLDER.mkdir(exist_ok=True)
    federation = Federation.simulate(branches=3, seed=5, scale=0.05)
    several = {"sources": ["main", "branch-1"], "targets": ["branch-2"], "epsilon": 0.5}
    stacked = run(study_for(federation.schema, method="pst-h", **several), federation)
    feature = {"name": "feature", "public_set": "public-survey"}
    aggregated = run(study_for(federation.schema, method=feature, **several), federation)
    stacked.write(FOLDER / "bundle")
    aggregated.write(FOLDER / "bundle-aggregate")
    _canonical()
    _keys()
    _ledger()
    _zcdp()
    _request()
    releases = [_envelope(release, release.party) for release in (*stacked.releases, *aggregated.releases)]
    receipts = [_envelope(receipt, "coordinator") for receipt in stacked.receipts[:1]]
    _write("envelopes.json", [*releases, *receipts, _envelope(stacked.certificate, "coordinator")])


if __name__ == "__main__":
    main()
