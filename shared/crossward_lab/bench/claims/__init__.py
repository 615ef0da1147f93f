"""What the papers say, and what we set out to reach, each as a small statement that is checked against the numbers.

results.py    looking numbers up, and comparing them over repeats
papers.py     what the papers conclude
ours.py       what our defaults are meant to reach
"""

from crossward_lab.bench.claims.ours import our_claims
from crossward_lab.bench.claims.papers import paper_claims
from crossward_lab.bench.claims.results import Results, Verdict

__all__ = ["Results", "Verdict", "our_claims", "paper_claims"]
