"""A target's models: what it uses, what each says about a record, and how well it does at home.

service.py      the models that this site has, and keeping one
predictions.py  what a model says about records, and what led there
evaluation.py   how well it does on the holdout; never sent
paid_auc.py     an AUC that was paid for, and may be told
jobs.py         both as jobs: they read the holdout
"""
