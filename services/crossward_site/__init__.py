"""What every hospital runs, source or target: one process that owns its keys, its data and its ledger.

A folder per feature, each with the same files where it has them: `routes.py` (HTTP), `service.py` (what happens),
`tables.py` (what is stored), `views.py` (what is answered).

data/        where records are, how they read, who sits in which cell
policy/      what is refused, approved by itself, or asked of the steward; the charge
approvals/   the steward's yes or no
tasks/       the tasks it took, durable at every step; what it released
ledger/      its own ledger, and that the mirror agrees
models/      a target's models: predictions, evaluation, a paid AUC
identity/    its key and its coordinator, other parties' keys, its secret, people's tokens
desk/        the whole site at a glance

app.py       create_app(settings): wires it all       main.py      what the command line calls
site.py      the open site: database, ledger, clock   settings.py  what an operator can set, and the roles
lock.py      one process per data directory           facts.py     single values, each of its own type
access.py    who is asking                            coordinator.py  calls to the coordinator
doctor.py    is this site well?                       backup.py    what a backup holds
migrations/  the database's form
"""
