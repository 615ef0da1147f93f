"""What parties agree on byte by byte, as docs/protocol.md specifies it.

canonical.py     the one byte string of a value, and the reader that takes no other
constants.py     names and numbers that everyone has in common      versions.py   which versions of it are spoken
keys.py          Ed25519 keys and their names                       times.py      the one spelling of a time
messages.py      what gets signed: models and receipts              envelopes.py  signed bytes
descriptions.py  what a release says of itself                      certificate.py  what a study led to
tasks.py         work, and what a site answers                      states.py     how far things are
ledger/          lines, the rule that admits them, chains and exports
problems.py      every error as it leaves over HTTP

`crossward/verify.py` checks all that is signed, without any of this.
"""
