"""The ledger: what every site has spent, line by line, so that nobody can spend it twice or deny it.

lines       a line: immutable, one byte string, one hash
rules       which line may come next; what each cell has spent
chain       does a chain hold, and where do two chains part
export      a chain as a text file, to verify offline
schema      the tables that a service includes in its migrations
database    engines and transactions for SQLite and PostgreSQL
migrations  a database moves forward to the form the code needs, and never back
book, sql   the ledger in a database: one transaction's view of it, and the port
cells       who sits in which permanent cell of a dataset
"""

from crossward.ledger.cells import CELLS, EMPTY, Slots, assign_new, cut
from crossward.ledger.chain import Difference, Verified, first_difference, verify
from crossward.ledger.database import connect, read, write
from crossward.ledger.export import export_file, read_file, verify_file
from crossward.ledger.lines import GENESIS, START, Body, Head, Line, OpenBody, ReleaseBody, ReserveBody
from crossward.ledger.rules import Balance, State, admit
from crossward.ledger.schema import LedgerTables, tables
from crossward.ledger.sql import Ledger, SqlLedger

__all__ = [
    "CELLS",
    "EMPTY",
    "GENESIS",
    "START",
    "Balance",
    "Body",
    "Difference",
    "Head",
    "Ledger",
    "LedgerTables",
    "Line",
    "OpenBody",
    "ReleaseBody",
    "ReserveBody",
    "Slots",
    "SqlLedger",
    "State",
    "Verified",
    "admit",
    "assign_new",
    "connect",
    "cut",
    "export_file",
    "first_difference",
    "read",
    "read_file",
    "tables",
    "verify",
    "verify_file",
    "write",
]
