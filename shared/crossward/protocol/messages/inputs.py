"""What a task learns from, opened: every release verified, fitting the study, from a party of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from crossward.errors import InvalidMessage
from crossward.protocol.messages.model import ModelMessage
from crossward.protocol.messages.signed import SignedRelease
from crossward.study.file import Study

KeyOf = Callable[[str, str], Ed25519PublicKey]
"""The public key of a party by its name and the key's; raises where there is none."""


def open_inputs(
    study: Study,
    inputs: Sequence[SignedRelease],
    key_of: KeyOf,
    *,
    aggregated: bool = False,
    allow_seeded: bool = False,
) -> tuple[ModelMessage, ...]:
    """The sources' models (or the one aggregate), in the order of their parties: the same at every site.

    Two releases of one party are refused: it would count twice in a mixture.
    """
    wanted = "aggregate" if aggregated else "source"
    opened = []
    for signed in inputs:
        message = signed.verify(key_of(signed.party, signed.key_id))
        message.check_against(study, allow_seeded=allow_seeded)
        if message.role != wanted:
            raise InvalidMessage(f"{message.party!r} sent a model as {message.role}, not as {wanted}.", "Refuse it.")
        opened.append(message)
    parties = [message.party for message in opened]
    if len(set(parties)) != len(parties):
        raise InvalidMessage("A party has two releases among the inputs.", "One release of each source is used.")
    return tuple(sorted(opened, key=lambda message: message.party))
