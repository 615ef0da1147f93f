"""What parties send one another. Every message has a version, one canonical form, and no number that is not finite.

model.py     a released model, and whether it fits its study
inputs.py    what a task learns from, verified
signed.py    signed releases and receipts (Ed25519)
tasks.py     tasks, results, heartbeats, refusals
receipt.py   the coordinator's receipt
"""

from crossward.study.messages.base import MOST_BYTES, VERSION, Message
from crossward.study.messages.inputs import KeyOf, open_inputs
from crossward.study.messages.model import GroupWeights, LevelOneWeights, ModelMessage
from crossward.study.messages.receipt import Head, Receipt
from crossward.study.messages.signed import SignedReceipt, SignedRelease, key_id_of
from crossward.study.messages.tasks import (
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
