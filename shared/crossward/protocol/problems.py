"""The one table from our errors to HTTP: status, title, and how much of the text may be shown.

A row's `text` says who may read the words of an error:

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
BEARER = 'Bearer realm="crossward"'
SIGNATURE = 'Signature realm="crossward"'


class Text(Enum):
    """Who may read the words of an error."""

    PUBLIC = "public"
    LOCAL = "local"


@dataclass(frozen=True)
class Row:
    """How one class of error leaves over HTTP; `challenge` is its WWW-Authenticate header, if any."""

    status: int
    title: str
    text: Text = Text.PUBLIC
    challenge: str = ""


TABLE: dict[type[errors.CrosswardError], Row] = {
    errors.CrosswardError: Row(500, "Crossward failed", Text.LOCAL),
    errors.InvalidInput: Row(422, "Invalid input", Text.LOCAL),
    errors.InvalidData: Row(422, "Records that cannot be learned from", Text.LOCAL),
    errors.NotFinite: Row(422, "NaN or infinity", Text.LOCAL),
    errors.EmptyData: Row(422, "No records", Text.LOCAL),
    errors.OneClass: Row(422, "Not two classes", Text.LOCAL),
    errors.WrongShape: Row(422, "Arrays that do not fit", Text.LOCAL),
    errors.TooFewRecords: Row(422, "Too few records", Text.LOCAL),
    errors.UnknownCategory: Row(422, "Unknown category", Text.LOCAL),
    errors.InvalidMessage: Row(422, "Invalid message"),
    errors.UnknownVersion: Row(422, "Unknown protocol version"),
    errors.Forged: Row(422, "Not what its key signed"),
    errors.InvalidSetting: Row(422, "Invalid setting"),
    errors.InvalidEpsilon: Row(422, "Invalid epsilon or delta"),
    errors.InvalidImportance: Row(422, "Invalid importance"),
    errors.InvalidRegularisation: Row(422, "Invalid regularisation"),
    errors.InvalidBounds: Row(422, "Invalid bounds"),
    errors.StudyInvalid: Row(422, "Invalid study"),
    errors.InsecureAddress: Row(500, "Insecure address"),
    errors.UnsafeKeyFile: Row(500, "Unsafe key file", Text.LOCAL),
    errors.BudgetExceeded: Row(409, "Privacy budget exceeded"),
    errors.NotConverged: Row(500, "Solver did not converge", Text.LOCAL),
    errors.LedgerRefused: Row(409, "Ledger line refused"),
    errors.Malformed: Row(422, "Malformed ledger line"),
    errors.NotNext: Row(409, "Line does not extend the ledger"),
    errors.AlreadyOpen: Row(409, "Dataset already open"),
    errors.UnknownDataset: Row(409, "Unknown dataset"),
    errors.UnknownCell: Row(409, "Unknown cell"),
    errors.AlreadyReserved: Row(409, "Task already reserved"),
    errors.NotReserved: Row(409, "Release not reserved"),
    errors.AlreadyReleased: Row(409, "Task already released"),
    errors.CellSpent: Row(409, "Cell's budget exceeded"),
    errors.ChainBroken: Row(500, "Ledger contradicts itself"),
    errors.StorageFailed: Row(503, "Storage failed", Text.LOCAL),
    errors.StorageBusy: Row(503, "Storage busy", Text.LOCAL),
    errors.AuditFailed: Row(500, "Audit failed", Text.LOCAL),
    errors.AccessRefused: Row(403, "Access refused"),
    errors.Unsigned: Row(401, "Signature missing", challenge=SIGNATURE),
    errors.WrongSignature: Row(401, "Wrong signature", challenge=SIGNATURE),
    errors.Expired: Row(401, "Signature expired", challenge=SIGNATURE),
    errors.Replayed: Row(401, "Request replayed", challenge=SIGNATURE),
    errors.UnknownParty: Row(401, "Unknown party or key", challenge=SIGNATURE),
    errors.KeyRevoked: Row(403, "Key revoked"),
    errors.MissingToken: Row(401, "Token missing", challenge=BEARER),
    errors.WrongToken: Row(401, "Unknown token", challenge=f'{BEARER}, error="invalid_token"'),
    errors.WrongRole: Row(403, "Role not allowed", challenge=f'{BEARER}, error="insufficient_scope"'),
    errors.WrongCode: Row(403, "Unknown invitation"),
    errors.PartyStopped: Row(403, "Party stopped"),
    errors.NotFound: Row(404, "Not found"),
    errors.Conflict: Row(409, "Contradicts what is there"),
    errors.TaskEnded: Row(409, "Task has ended"),
    errors.BodyTooLarge: Row(413, "Body too large"),
    errors.NotReady: Row(503, "Not ready"),
    errors.Unreachable: Row(502, "Another service did not answer"),
    errors.RemoteProblem: Row(502, "Another service refused"),
}


def urn(kind: type[errors.CrosswardError]) -> str:
    """The stable name of a class of error: ``BudgetExceeded`` is ``urn:crossward:problem:budget-exceeded``."""
    return PREFIX + re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def listed(kind: type[errors.CrosswardError]) -> type[errors.CrosswardError]:
    """The class itself if it has a row, else its nearest ancestor that has."""
    return next(ancestor for ancestor in kind.__mro__ if ancestor in TABLE)


BY_URN = {urn(kind): kind for kind in TABLE}
