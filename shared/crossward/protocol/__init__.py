"""What parties agree on byte by byte: canonical form, keys, messages and their signatures, ledger lines and their rule.

canonical.py   the one byte string of a value
keys.py        Ed25519 keys and their names
messages/      what parties send one another
ledger/        lines, the rule that admits them, chains and exports
problems.py    every error as it leaves over HTTP
"""
