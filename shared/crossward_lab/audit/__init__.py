"""The catalogue of `crossward audit`: which mechanisms are audited, and which faults are planted to test the audit.

mechanisms   every mechanism of Crossward: each must be clear
mutants      the same with one thing wrong: each must be caught
peers        formulas of public libraries, for information
run          all of it

objective, unscaled   exact audits of objective perturbation
noise_law             the noise inside released models, recovered and tested
descent, gaussian     distances and Gaussian noise: DPPSGD, the release step, AMP
sampled, choice       fresh runs of the real code on adversarial neighbours
"""

from crossward_lab.audit.run import audit_one, run

__all__ = ["audit_one", "run"]
