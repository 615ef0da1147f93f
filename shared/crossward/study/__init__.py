"""The study file: what parties agree on before a record is touched, and what it asks of each of them.

study.py     Study: read, checked with every problem at once, canonical, hashed     (example.yaml to start from)
features.py, sections.py    its parts; document.py, wording.py: lines and words of refusal
rules.py     what the parts must be to one another; auto.py: `method: auto`
work.py      which cells a role trains on, what it releases, and the training
wire.py      models as messages, and whether a message fits its study
"""

from crossward.study.study import Study, example, study_for

__all__ = ["Study", "example", "study_for"]
