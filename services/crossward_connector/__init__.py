"""Reads a hospital's tables in a process of its own, which has no key, no ledger and no way to anything else.

`python -m crossward_connector` takes one request on its standard input, and open files; it answers on its standard
output with the table's form, batches of raw values, and what is wrong with the table.

tables.py         what a reading is made of: limits, faults, the form of a table
csv_files.py      CSV: what it looks like, and its rows
parquet_files.py  Parquet
postgres.py       a query on PostgreSQL
sqlite.py         a query on SQLite
requests.py       what may be asked for, and who reads it
wire.py           the frames between both processes
sandbox.py        what the process gives up before it touches data
"""
