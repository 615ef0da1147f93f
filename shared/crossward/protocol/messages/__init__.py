"""What parties send one another. Every message has a version, one canonical form, and no number that is not finite.

model.py     a released model, and whether it fits its study
inputs.py    what a task learns from, verified
signed.py    signed releases and receipts (Ed25519)
tasks.py     tasks, results, heartbeats, refusals
receipt.py   the coordinator's receipt
"""

from crossward.protocol.messages.base import MOST_BYTES, VERSION, Message
from crossward.protocol.messages.inputs import KeyOf, open_inputs
from crossward.protocol.messages.model import GroupWeights, LevelOneWeights, ModelMessage
from crossward.protocol.messages.receipt import Head, Receipt
from crossward.protocol.messages.signed import SignedReceipt, SignedRelease, key_id_of
from crossward.protocol.messages.tasks import (
    DeclineMessage,
    DeclineReason,
    HeartbeatMessage,
    ResultMessage,
    TaskKind,
    TaskMessage,
)

__all__ = [
    "MOST_BYTES",
    "VERSION",
    "DeclineMessage",
    "DeclineReason",
    "GroupWeights",
    "Head",
    "HeartbeatMessage",
    "KeyOf",
    "LevelOneWeights",
    "Message",
    "ModelMessage",
    "Receipt",
    "ResultMessage",
    "SignedReceipt",
    "SignedRelease",
    "TaskKind",
    "TaskMessage",
    "key_id_of",
    "open_inputs",
]
