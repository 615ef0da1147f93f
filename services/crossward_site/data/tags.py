"""Persons as the vault knows them: 64-bit tags, a keyed function of the id that the hospital's tables use.

A tag is the same in every dataset, version and role of the site, so a person has one seat and one budget. Nobody can
tell an id from its tag, or make one, without the site's secret. Two ids share a tag with a chance of n^2 / 2^65 (one in
thirty-five million for a million people); they would share a seat, which protects what lies in it as it does for one.

    tag(id) = first 8 bytes of the CBC-MAC, by AES-256, of its length and its UTF-8 bytes

The length goes first, so no message is the beginning of another: this is what makes a CBC-MAC a pseudorandom function
(Petrank and Rackoff 2000). A column is tagged at once, block by block.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Tags = NDArray[np.uint64]

BLOCK = 16
LONGEST = 96
"""Ids of more bytes are told apart by their SHA-256: a column needs no more room for one odd cell."""

PIECE = 1 << 22
"""So many numbers are 32 MB: what is as large is no part of a heap that only grows."""

_EXACT = 2.0**53
"""From here on not every whole number is a floating-point number."""

_UNSEEN = (
    r"[\p{Cf}\p{Cc}\x{34f}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{2800}\x{3164}\x{fe00}-\x{fe0f}\x{ffa0}"
    r"\x{fff0}-\x{fffc}\x{e0000}-\x{e0fff}]"
)
_DASH = r"[\x{2010}-\x{2015}\x{2212}\x{fe58}\x{fe63}\x{ff0d}]"
_UUID, _UUID_BYTES = r"^\s*\{?([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})\}?\s*$", 36


class Tagger:
    """Tags persons, and orders their records, by one site's secret."""

    def __init__(self, secret: bytes) -> None:
        self._persons, self._records = (_key(secret, use) for use in (b"person", b"record"))

    def persons(self, ids: pa.StringArray) -> Tags:
        """The tag of each id, as `id_texts` writes it. None gets that of the empty text: who needs an id refuses it."""
        return _mac(self._persons, ids)

    def person(self, text: str) -> int:
        """The tag of one id, as a person writes it."""
        return int(self.persons(id_texts(pa.array([text], pa.string())))[0])

    def records(self, persons: Tags, ids: pa.StringArray) -> Tags:
        """A key for each record of a person, by its id: an order that no value of the record decides."""
        return _mac(self._records, ids, persons)

    def ordinals(self, persons: Tags, numbers: NDArray[np.integer]) -> Tags:
        """A key for each record of a person, by which of the person's records it is."""
        blocks = np.empty((len(persons), 2), np.uint64)
        blocks[:, 0], blocks[:, 1] = persons, numbers
        return _encrypted(self._records, blocks)[:, 0].copy()


def id_texts(column: pa.Array) -> pa.StringArray:
    """Ids as texts: the number 7.0, the texts "7.0", "+7" and " 7 ", and 7 are one person. None where there is none.

    So are two spellings that look alike (Unicode's compatibility form: full-width digits, letters with their accents
    apart, marks that nobody sees), and a UUID in capitals or braces. Zeros in front and the case of other ids tell
    persons apart.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        return column.cast(pa.string())
    if pa.types.is_floating(column.type):
        column = _whole(column)
    texts = pc.utf8_trim_whitespace(_alike(column.cast(pa.string())))
    texts = pc.replace_substring_regex(texts, r"^\+?(-?[0-9]+)(\.0*)?$", r"\1")
    texts = pc.replace_substring_regex(texts, r"^-(0+)$", r"\1")
    return pc.if_else(pc.equal(texts, ""), None, texts)


class Growing:
    """Numbers that come in batches, kept in pieces so large that the system has each back once it is let go."""

    def __init__(self) -> None:
        self._pieces: list[Tags] = []
        self._room = np.empty(0, np.uint64)

    def extend(self, more: Tags) -> None:
        """Take in a batch."""
        while len(more):
            if not len(self._room):
                self._room = np.empty(PIECE, np.uint64)
                self._pieces.append(self._room)
            count = min(len(more), len(self._room))
            self._room[:count], self._room, more = more[:count], self._room[count:], more[count:]

    def joined(self) -> Tags:
        """All of them, in one array."""
        if self._pieces:
            self._pieces[-1] = self._pieces[-1][: len(self._pieces[-1]) - len(self._room)]
        whole = joined(self._pieces)
        self._pieces, self._room = [whole], whole[:0]
        return whole


def joined(parts: list[Tags]) -> Tags:
    """One array of all, each part let go as it is copied."""
    whole, at = np.empty(sum(map(len, parts)), np.uint64), 0
    for index, part in enumerate(parts):
        whole[at : at + len(part)] = part
        at += len(part)
        parts[index] = part[:0].copy()
    return whole


def _alike(texts: pa.StringArray) -> pa.StringArray:
    """Spellings of one id as one text."""
    if pc.all(pc.ascii_is_printable(texts)).as_py() is False:
        texts = pc.utf8_normalize(pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), _UNSEEN, ""), "NFKC")
        texts = pc.replace_substring_regex(texts, _DASH, "-")
    if pc.any(pc.greater_equal(pc.binary_length(texts), _UUID_BYTES)).as_py():
        plain = pc.ascii_lower(pc.replace_substring_regex(texts, _UUID, r"\1"))
        texts = pc.if_else(pc.match_substring_regex(texts, _UUID), plain, texts)
    return texts


def lost_digits(column: pa.Array) -> NDArray[np.bool_]:
    """Where an id is a floating-point number so large that its last digits are gone: two persons may look like one."""
    if not pa.types.is_floating(column.type):
        return np.zeros(len(column), bool)
    lost: NDArray[np.bool_] = np.abs(column.to_numpy(zero_copy_only=False)) >= _EXACT
    return lost


def _whole(column: pa.Array) -> pa.Array:
    """Whole numbers without a decimal point; others as they are written, NaN as none."""
    column = pc.if_else(pc.is_nan(column), None, column)
    whole = pc.and_(pc.equal(column, pc.round(column)), pc.less(pc.abs(column), 2.0**63))
    numbers = pc.cast(pc.if_else(whole, column, 0.0), pa.int64()).cast(pa.string())
    return pc.if_else(whole, numbers, column.cast(pa.string()))


def _key(secret: bytes, use: bytes) -> bytes:
    return hmac.digest(secret, b"crossward tags: " + use, "sha256")


def _mac(key: bytes, texts: pa.StringArray, first: Tags | None = None) -> Tags:
    """The CBC-MAC of each text, with a number before it where there is one."""
    texts = _shortened(texts)
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    state = np.zeros((len(texts), 2), np.uint64)
    state[:, 0] = lengths
    if first is not None:
        state[:, 1] = first
    state = _encrypted(key, state)
    count = -(-lengths // BLOCK)
    blocks = _blocks(texts, int(count.max(initial=0)))
    for index in range(blocks.shape[1]):
        rows = slice(None) if index == 0 and count.all() else np.flatnonzero(count > index)
        state[rows] = _encrypted(key, state[rows] ^ blocks[rows, index])
    return state[:, 0].copy()


def _blocks(texts: pa.StringArray, count: int) -> Tags:
    """The texts as so many blocks of two words each, zeros after their end: (n, count, 2)."""
    if not count:
        return np.empty((len(texts), 0, 2), np.uint64)
    padded = pc.ascii_rpad(texts.fill_null(""), count * BLOCK, "\0")  # by bytes, whatever they spell
    _, _, data = padded.buffers()
    whole = np.frombuffer(data, np.uint64, len(texts) * count * BLOCK // 8, padded.offset * count * BLOCK)
    return whole.reshape(-1, count, 2)


def _shortened(texts: pa.StringArray) -> pa.StringArray:
    long = pc.fill_null(pc.greater(pc.binary_length(texts), LONGEST), False)
    if not pc.any(long).as_py():
        return texts
    hashed = [
        hashlib.sha256(text.encode()).hexdigest() if is_long else text
        for text, is_long in zip(texts.to_pylist(), long.to_pylist(), strict=True)
    ]
    return pa.array(hashed, pa.string())


def _encrypted(key: bytes, blocks: Tags) -> Tags:
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    found = np.empty((len(blocks) * 2 + 2,), np.uint64)  # as much as the cipher may write
    given = np.ascontiguousarray(blocks).reshape(-1).view(np.uint8)
    cipher.update_into(given.data, found.view(np.uint8).data)
    return found[:-2].reshape(-1, 2)
