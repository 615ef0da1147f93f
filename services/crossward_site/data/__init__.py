"""The vault: data that were checked, sealed and seated. Tasks read nothing else.

places.py      what a steward may name: a file under a declared root, a query on a declared connection
connector.py   reads a place, in a process of its own
reading.py     the one way in: mapping, units, recodes, missing words, clipping; for training and for prediction
mapping.py     local columns, units and codes to those of a study
units.py       from one unit to another
survey.py      `data check`: every problem at once
intake.py      from a place to a sealed copy
sealed.py      the sealed copy: typed, columnar, compressed, encrypted
tags.py        persons as keyed tags
seats.py       who sits in which permanent cell, in all datasets
seating.py     that the table of seats is the ledger's; the way back when it is not
service.py     the vault: open, refresh, undo, erase, and rows by cell
usage.py       what was learned from which version
jobs.py        work that takes a while; requests.py what may be asked
checks.py      what is refused as data are opened
report.py      what the steward should know of the data; never sent
"""
