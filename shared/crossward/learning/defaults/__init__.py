"""The `default` preset: settings as functions of public facts (n, eps, importance, prevalence, role), never of records.

circumstances.py   the public facts
encoding.py        columns kept, their lengths, the radius, the groups
strength.py        lambda
preset.py          a learner for every method and role
"""

from crossward.learning.defaults.circumstances import Circumstances, Party
from crossward.learning.defaults.preset import Defaults

__all__ = ["Circumstances", "Defaults", "Party"]
