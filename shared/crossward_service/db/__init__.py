"""Databases: what is committed is on disk, writers take turns, and a ledger in tables keeps the rule of the protocol.

engine         engines and transactions for SQLite and PostgreSQL
migrations     a database moves forward to the form the code needs, and never back
ledger_tables  the tables that a service includes in its migrations
ledger, book   the ledger in a database: the port, and one transaction's view of it
"""
