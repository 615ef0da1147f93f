"""What every service stands on, and knows nothing of studies.

db/     engines and transactions, migrations, the ledger in SQL
http/   the edge of a service, in the order a request meets it
ops/    doctor, backup and restore
"""
