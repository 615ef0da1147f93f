"""Who this site is and whom it knows: its key and its coordinator, other parties' keys, its secret, people's tokens.

service.py   the identity: join a coordinator, rotate the key
pins.py      other parties' public keys, as this site trusts them
secret.py    what keys the hashes of persons
tokens.py    tokens of the site's own interface
"""
