"""The site's own ledger, and that the coordinator's mirror of it agrees.

store.py     the ledger in the site's database, with what each study took
service.py   sync, reconcile, verification
"""
