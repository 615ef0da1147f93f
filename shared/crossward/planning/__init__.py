"""A power analysis from public facts: which method, which epsilon, and what to expect of it.

assumptions.py   what a lead supposes about records nobody has looked at
setting.py       the public facts of the study: features, parties, record counts
world.py         hospitals drawn from both
power.py         the real learners on many such worlds: forecasts with bands     (written.py: the study's own settings)
outlook.py       what the lead is told
figure.py        the same as a picture
"""

from crossward.planning.assumptions import Assumptions
from crossward.planning.outlook import EPSILONS, Outlook, plan, smallest_epsilon
from crossward.planning.power import Forecast, forecast
from crossward.planning.setting import Setting

__all__ = ["EPSILONS", "Assumptions", "Forecast", "Outlook", "Setting", "forecast", "plan", "smallest_epsilon"]
