"""A process of its own that opens a budget and reserves until it is refused. Run as: rival.py URL NAME BUDGET COST.

Says `ready`, waits for a line on its input, then prints one line for each reservation, once that is committed.
"""

from __future__ import annotations

import sys
from itertools import count

from sqlalchemy import MetaData

from crossward.errors import CellSpent
from crossward.protocol.ledger.lines import OpenBody, ReserveBody, SeatsBody
from crossward_service.db.engine import connect, read, write
from crossward_service.db.ledger import SqlLedger
from crossward_service.db.ledger_tables import tables

ZEROS = "0" * 64


def main(url: str, name: str, budget: int, cost: int) -> None:
    ledger = SqlLedger(tables(MetaData()), "site-a")
    # SQLite does not queue: who looks at the wrong moments waits long, where commits are slow.
    engine = connect(url, patience=600)
    with read(engine) as connection:
        ledger.head(connection)
    print("ready", flush=True)
    sys.stdin.readline()
    with write(engine) as connection:
        ledger.append(connection, OpenBody(1, 2, "basic", budget), 0)
        ledger.append(connection, SeatsBody(1, ZEROS), 0)
    for number in count():
        body = ReserveBody(f"{name}-{number}", "study", ZEROS, (0, 1), cost, 0, ZEROS)
        try:
            with write(engine) as connection:
                line = ledger.append(connection, body, number)
        except CellSpent:
            break
        print(line.hash, flush=True)
    engine.dispose()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
