"""The one table from our errors to HTTP: status, title, and how much of the text may be shown.

The `text` of an entry says who may read the words of an error:

- ``PUBLIC``: anyone who may call the service; the words speak of public settings, keys, budgets.
- ``LOCAL``: only callers of a site's own API; the words may quote a record or depend on one, so elsewhere a fixed
  sentence stands in for them.

An error class that is missing here answers as its nearest ancestor; a test keeps the table complete.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from crossward import errors

PREFIX = "urn:crossward:problem:"
MEDIA_TYPE = "application/problem+json"
INVALID_REQUEST = PREFIX + "invalid-request"
UNEXPECTED = PREFIX + "unexpected"
BEARER = 'Bearer realm="crossward"'
SIGNATURE = 'Signature realm="crossward"'


class Text(Enum):
    """Who may read the words of an error."""

    PUBLIC = "public"
    LOCAL = "local"


@dataclass(frozen=True)
class HttpForm:
    """How one class of error leaves over HTTP; `challenge` is its WWW-Authenticate header, if any."""

    status: int
    title: str
    text: Text = Text.PUBLIC
    challenge: str = ""


TABLE: dict[type[errors.CrosswardError], HttpForm] = {
    errors.CrosswardError: HttpForm(500, "Crossward failed", Text.LOCAL),
    errors.InvalidInput: HttpForm(422, "Invalid input", Text.LOCAL),
    errors.InvalidData: HttpForm(422, "Records that cannot be learned from", Text.LOCAL),
    errors.NotFinite: HttpForm(422, "NaN or infinity", Text.LOCAL),
    errors.EmptyData: HttpForm(422, "No records", Text.LOCAL),
    errors.OneClass: HttpForm(422, "Not two classes", Text.LOCAL),
    errors.WrongShape: HttpForm(422, "Arrays that do not fit", Text.LOCAL),
    errors.TooFewRecords: HttpForm(422, "Too few records", Text.LOCAL),
    errors.UnknownCategory: HttpForm(422, "Unknown category", Text.LOCAL),
    errors.InvalidMessage: HttpForm(422, "Invalid message"),
    errors.UnknownVersion: HttpForm(422, "Unknown protocol version"),
    errors.Forged: HttpForm(422, "Not what its key signed"),
    errors.InvalidSetting: HttpForm(422, "Invalid setting"),
    errors.InvalidEpsilon: HttpForm(422, "Invalid epsilon or delta"),
    errors.InvalidImportance: HttpForm(422, "Invalid importance"),
    errors.InvalidRegularisation: HttpForm(422, "Invalid regularisation"),
    errors.InvalidBounds: HttpForm(422, "Invalid bounds"),
    errors.StudyInvalid: HttpForm(422, "Invalid study"),
    errors.InsecureAddress: HttpForm(500, "Insecure address"),
    errors.UnsafeKeyFile: HttpForm(500, "Unsafe key file", Text.LOCAL),
    errors.BudgetExceeded: HttpForm(409, "Privacy budget exceeded"),
    errors.NotConverged: HttpForm(500, "Solver did not converge", Text.LOCAL),
    errors.LedgerRefused: HttpForm(409, "Ledger line refused"),
    errors.Malformed: HttpForm(422, "Malformed ledger line"),
    errors.NotNext: HttpForm(409, "Line does not extend the ledger"),
    errors.AlreadyOpen: HttpForm(409, "Budget is final"),
    errors.NotOpen: HttpForm(409, "No budget"),
    errors.OutOfTurn: HttpForm(409, "Not the next version"),
    errors.NotSeated: HttpForm(409, "No table of seats"),
    errors.UnknownDataset: HttpForm(409, "Unknown dataset"),
    errors.UnknownCell: HttpForm(409, "Unknown cell"),
    errors.AlreadyReserved: HttpForm(409, "Task already reserved"),
    errors.NotReserved: HttpForm(409, "Release not reserved"),
    errors.AlreadyReleased: HttpForm(409, "Task already released"),
    errors.CellSpent: HttpForm(409, "Cell's budget exceeded"),
    errors.ChainBroken: HttpForm(500, "Ledger contradicts itself"),
    errors.StorageFailed: HttpForm(503, "Storage failed", Text.LOCAL),
    errors.StorageBusy: HttpForm(503, "Storage busy", Text.LOCAL),
    errors.AuditFailed: HttpForm(500, "Audit failed", Text.LOCAL),
    errors.AccessRefused: HttpForm(403, "Access refused"),
    errors.Unsigned: HttpForm(401, "Signature missing", challenge=SIGNATURE),
    errors.WrongSignature: HttpForm(401, "Wrong signature", challenge=SIGNATURE),
    errors.Expired: HttpForm(401, "Signature expired", challenge=SIGNATURE),
    errors.Replayed: HttpForm(401, "Request replayed", challenge=SIGNATURE),
    errors.UnknownParty: HttpForm(401, "Unknown party or key", challenge=SIGNATURE),
    errors.KeyRevoked: HttpForm(403, "Key revoked"),
    errors.MissingToken: HttpForm(401, "Token missing", challenge=BEARER),
    errors.WrongToken: HttpForm(401, "Unknown token", challenge=f'{BEARER}, error="invalid_token"'),
    errors.WrongRole: HttpForm(403, "Role not allowed", challenge=f'{BEARER}, error="insufficient_scope"'),
    errors.WrongCode: HttpForm(403, "Unknown invitation"),
    errors.PartyStopped: HttpForm(403, "Party stopped"),
    errors.NotFound: HttpForm(404, "Not found"),
    errors.Conflict: HttpForm(409, "Contradicts what is there"),
    errors.TaskEnded: HttpForm(409, "Task has ended"),
    errors.BodyTooLarge: HttpForm(413, "Body too large"),
    errors.NotReady: HttpForm(503, "Not ready"),
    errors.Unreachable: HttpForm(502, "Another service did not answer"),
    errors.RemoteProblem: HttpForm(502, "Another service refused"),
}


def urn(kind: type[errors.CrosswardError]) -> str:
    """The stable name of a class of error: ``BudgetExceeded`` is ``urn:crossward:problem:budget-exceeded``."""
    return PREFIX + re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def nearest_entry(kind: type[errors.CrosswardError]) -> type[errors.CrosswardError]:
    """The class itself if the table has it, else its nearest ancestor there."""
    return next(ancestor for ancestor in kind.__mro__ if ancestor in TABLE)


BY_URN = {urn(kind): kind for kind in TABLE}
