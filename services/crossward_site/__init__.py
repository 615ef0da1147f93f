"""What every hospital runs, source or target: its data, its policy, its tasks and what it has sent.

tables, migrations   what a site stores; no record among it
site.py              the open site: database, ledger, settings, clock
identity.py          its key, and the coordinator it joined
vault/               where records are, how they read, who sits in which cell
policy.py            what is refused, approved by itself, or asked of the steward
tasks.py             the tasks it took, durable at every step
coordinator.py       calls to the coordinator
sync.py              the mirror must agree, or the site stops
training.py          from a task to a model: prepare, train
outbox.py            what was released: the same bytes until acknowledged
runner.py            takes tasks and carries them through; crash.py: where a test may kill it
models.py            a target's models: predictions, evaluation, a paid AUC
status.py, api/      what the steward sees
"""
