"""What is wrong with a text that cannot be read, told without the text: by its kind, and by its shape."""

from __future__ import annotations

import re
from enum import StrEnum

RUN = 4
LONGEST = 24

_NUMBER = r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?"
_PATTERNS = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        "limit": rf"(?:[<>≤≥]=?|&[lg]t;|under|over|unter|über)\s*{_NUMBER}\s*%?",
        "percent": rf"{_NUMBER}\s*%",
        "date": r"\d{4}[-./]\d{1,2}[-./]\d{1,2}(?:[T ].*)?|\d{1,2}[-./]\d{1,2}[-./](?:\d{4}|\d{2})(?:[T ].*)?",
        "time": r"\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)?",
        "span": rf"{_NUMBER}\s*(?:-|\u2013|to|bis)\s*{_NUMBER}",
        "grouped": r"[+-]?\d{1,3}(?:[ '\u2019\u00a0\u202f]\d{3})+(?:[.,]\d+)?",
        "points": r"[+-]?\d{1,3}(?:\.\d{3})+,\d+|[+-]?\d{1,3}(?:\.\d{3}){2,}",
        "commas": r"[+-]?\d{1,3}(?:,\d{3})+\.\d+|[+-]?\d{1,3}(?:,\d{3}){2,}",
        "comma": r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?|[+-]?\d+,",
        "point": r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?|[+-]?\d+\.",
        "unit": rf"{_NUMBER}\s*[^\W\d_].*|{_NUMBER}\s*[°µ/].*",
    }.items()
}
_THOUSANDS = re.compile(r"[+-]?\d{1,3}[.,]\d{3}")
_GARBLED = re.compile("\ufffd|Ã[\x80-\xbf¤¶¼Ÿ©¨]|â€")

MISSING_WORDS = frozenset({
    "na", "n/a", "#n/a", "n.a.", "n.a", "nan", "null", "none", "nil", "nul", "-", "--", "---", ".", "..", "?", "??",
    "unknown", "unk", "missing", "miss", "not available", "unavailable", "k.a.", "k.a", "ka", "keine angabe", "fehlt",
    "fehlend", "unbekannt", "inconnu", "s/o", "nd", "n.d.", "#null!", "#div/0!", "#value!", "#ref!", "#name?",
    "#num!", "#wert!", "#bezug!", "<na>", "(null)", "inf", "-inf", "+inf", "infinity", "-infinity", "pending",
    "error", "not done", "not measured", "n.b.", "n.e.",
})  # fmt: skip
"""What is written where there is no value, without case."""

YES_NO = {
    **dict.fromkeys(("y", "j", "ja", "wahr", "oui", "vrai", "si", "sí", "vero", "sim", "tak", "ano", "igen"), True),
    **dict.fromkeys(("n", "nein", "falsch", "non", "faux", "falso", "não", "nao", "nee", "nej", "nem"), False),
}
"""How yes and no are written beside the words that every flag knows, without case: none that means another elsewhere,
as f does."""

MISSING_CODES = (-1.0, -7.0, -8.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 777.0, 888.0, 999.0, 9999.0, 99999.0)
"""Numbers that stand for a missing value where they lie outside of a range."""

_IDENTIFIER = re.compile(
    r"(?:^|_)(?:(?:sur|last|first|given|full|family|maiden|patient|vor|nach|geburts)_?names?|names?|nom|prenom|dob|birth_?da(?:y|te)|"
    r"date_of_birth|geburts?_?(?:datum|tag)|geb_?dat(?:um)?|ssn|social_security(?:_n(?:o|umber))?|nhs_?(?:no|number)?|"
    r"insurance_?(?:no|number|id)?|versicherten?_?(?:nr|nummer)|kvnr|mrn|medical_record_number|passport(?:_no|_number)?|"
    r"e_?mail(?:_address)?|phone(?:_?(?:no|number))?|tele(?:f|ph)on(?:_?nummer)?|mobile|address|adresse|street|stra(?:ss|ß)e|"
    r"zip(?:_?code)?|post_?code|plz|iban)(?:_|$)"
)


class Oddity(StrEnum):
    """What a text is that was to be something else."""

    WORD = "word"
    LIMIT = "limit"
    PERCENT = "percent"
    DATE = "date"
    SPAN = "span"
    THOUSANDS = "thousands"
    COMMA = "comma"
    POINT = "point"
    UNIT = "unit"
    GARBLED = "garbled"
    CASE = "case"
    YES_NO = "yes-no"
    WHOLE = "whole"
    OTHER = "other"


_KINDS = {
    "limit": Oddity.LIMIT,
    "percent": Oddity.PERCENT,
    "date": Oddity.DATE,
    "time": Oddity.DATE,
    "grouped": Oddity.THOUSANDS,
    "points": Oddity.THOUSANDS,
    "commas": Oddity.THOUSANDS,
    "comma": Oddity.COMMA,
    "point": Oddity.POINT,
    "span": Oddity.SPAN,
    "unit": Oddity.UNIT,
}


SIGNS = frozenset(".,:/-+<>%")
"""What is shown as it is; any other sign is a question mark, for a text of strange signs may spell anything."""


def shape(text: str) -> str:
    """A text with digits as 9, letters as a, runs and the whole cut short: `<9.9`, `99.99.9999`, `aaaa 9`."""
    plain = "".join(_sign(character) for character in text[:200])
    plain = re.sub(rf"(.)\1{{{RUN},}}", lambda run: run[1] * RUN, plain)
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 2] + ".."


def _sign(character: str) -> str:
    if character in SIGNS:
        return character
    return "9" if character.isdigit() else "a" if character.isalpha() else " " if character.isspace() else "?"


def missing_word(text: str) -> str | None:
    """The word for missing that a text is, as it is listed; None if it is none. Only listed words are ever told."""
    word = text.strip().casefold()
    return word if word in MISSING_WORDS else None


def odd_number(text: str) -> Oddity:
    """Why a text is no number."""
    plain = text.strip()
    if missing_word(plain) is not None:
        return Oddity.WORD
    if _GARBLED.search(plain):
        return Oddity.GARBLED
    for name, kind in _KINDS.items():
        if _PATTERNS[name].fullmatch(plain):
            return kind
    return Oddity.OTHER


def odd_word(text: str, levels: frozenset[str]) -> Oddity:
    """Why a text is none of the levels, which are given without case."""
    plain = text.strip()
    if plain.casefold() in levels:
        return Oddity.CASE
    if plain.casefold() in YES_NO and {"yes", "no"} <= levels:
        return Oddity.YES_NO
    if missing_word(plain) is not None:
        return Oddity.WORD
    head, point, tail = plain.partition(".")
    if point and head in levels and not tail.strip("0"):
        return Oddity.WHOLE
    return Oddity.GARBLED if _GARBLED.search(plain) else Oddity.OTHER


def is_thousands(text: str) -> bool:
    """Whether a number with one comma or point may be a thousand: 1,234."""
    return _THOUSANDS.fullmatch(text.strip()) is not None


def looks_like_name(header: str) -> bool:
    """Whether a header is a name, and no value of a table whose first line is a record already."""
    plain = header.strip()
    letters = sum(character.isalpha() for character in plain)
    digits = sum(character.isdigit() for character in plain)
    if not letters or len(plain) > 64 or not plain.isprintable() or "@" in plain:
        return False
    kind = odd_number(plain)
    named = kind in (Oddity.OTHER, Oddity.WORD, Oddity.GARBLED) or (kind is Oddity.UNIT and plain.isalnum())
    return named and digits <= max(4, letters)


def looks_like_identifier(header: str) -> bool:
    """Whether a column's name promises a name, a date of birth, an insurance number, or another direct identifier."""
    parts = re.sub(r"([a-zäöü])([A-ZÄÖÜ])", r"\1_\2", header.strip())
    return _IDENTIFIER.search(re.sub(r"[\W_]+", "_", parts).casefold().replace("ß", "ss")) is not None
