"""The study file, the learners it stands for, and the messages that parties exchange about it.

file.py          Study: read, checked with every problem at once, canonical, hashed     (example.yaml to start from)
  values, durations, features, methods, sections   its parts
  document, wording, rules                         lines, words of refusal, what parts must be to one another
learners/        cells, learners, costs and training of each role      (balls, build: from settings to the library)
messages/        what is sent: models, signed releases, tasks, results, receipts; versioned
from_schema.py   a study for a schema at hand
"""

from crossward.study.file import Study, example
from crossward.study.from_schema import study_for

__all__ = ["EXAMPLE", "Study", "example", "study_for"]


def __getattr__(name: str) -> str:
    """`EXAMPLE` is the text of example.yaml, read when it is first asked for."""
    if name == "EXAMPLE":
        return example()
    raise AttributeError(f"module 'crossward.study' has no attribute {name!r}")
