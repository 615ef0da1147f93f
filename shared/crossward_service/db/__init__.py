"""Databases: what is committed is on disk, writers take turns, and a ledger in tables keeps the rule of the protocol.

engine         engines and transactions for SQLite and PostgreSQL
probe          whether a database takes writes
migrations     a database moves forward to the form the code needs, and never back
lifecycle      states that follow one another by one table, in the code and by CHECK
tokens         people and their roles
ledger         the ledger in a database: the port
ledger_tables  its tables, for a service's migrations, and one transaction's view of them
"""
