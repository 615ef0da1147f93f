"""Ledgers: exported, shown and verified by anyone, offline."""

import json

from crossward.protocol.ledger.export import export_file
from crossward.protocol.ledger.lines import START, Line, OpenBody, ReleaseBody, ReserveBody, SeatsBody


def test_an_exported_ledger_is_verified_offline_to_the_byte(program, tmp_path):
    head, file = START, tmp_path / "ledger.txt"
    lines = []
    for body in (
        OpenBody(1, 20, "basic", 3 * 10**9),
        SeatsBody(1, "3" * 64),
        ReserveBody("t1", "s", "0" * 64, (0, 1, 2), 10**9, 0, "1" * 64),
        ReleaseBody("t1", "2" * 64),
    ):
        lines.append(Line.after(head, body, 1_700_000_000_000))
        head = lines[-1].head
    export_file(lines, file)
    verified = json.loads(program("ledger", "verify", "--json", file).stdout)
    assert verified == {"lines": 4, "head": head.hash, "epsilon_spent": 1.0, "epsilon_budget": 3.0}
    assert "verified" in program("ledger", "verify", file, "--head", f"4:{head.hash}").stdout
    shown = program("ledger", "show", file).stdout
    assert all(kind in shown for kind in ("open", "seats", "reserve", "release"))
    bytes_ = bytearray(file.read_bytes())
    bytes_[file.read_bytes().index(b"t1")] ^= 1
    file.write_bytes(bytes_)
    assert "Line 2" in program("ledger", "verify", file, code=2).stderr
