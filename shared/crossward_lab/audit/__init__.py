"""Does a mechanism keep its promise? Engines that look for a counter-example, and the catalogue they are set upon.

run           `crossward audit`: every mechanism, every planted fault, every peer
mechanisms    every mechanism of Crossward: each must be clear
mutants       the same with one thing wrong: each must be caught
peers         formulas of public libraries, for information

objective     objective perturbation, exactly; and the noise inside released models, recovered and tested
distances     distances and Gaussian noise: DPPSGD, the release step, AMP
sampled       fresh runs of the real code on adversarial neighbours
choice        private choice

densities     the privacy loss from densities, maximised over weights and neighbours; with Gaussian noise on a grid
closed_forms  noise on top of deterministic answers; the best of a random number of tries
sampling      a lower confidence bound on epsilon from fresh runs; the law of the noise that was drawn
report        how hard to look, and what was found

A loss above the claim refutes a mechanism for certain (by sampling: but for one time in 10^8). No loss above the claim
proves nothing by itself, which is why faults are planted that must be found. The engines know nothing of learners.
"""

from crossward_lab.audit.run import audit_one, run

__all__ = ["audit_one", "run"]
