"""The learners of the papers. Each is a frozen set of public settings with `release(n, features)`, what it will
release, known before a record is touched, and `fit(X, y)`, which checks, charges, draws, solves and releases.

    encoding/     from raw tables to columns, by a public feature schema; feature groups
    records       records inside a ball; losses; solver; regulariser (the pull of hypothesis transfer)
    stored        rows on disk in place of a matrix, for every learner
    plr           PLR: one private logistic model; PLR-FS: K feature groups, one budget
    model         what a learner returns: weights, release, and contributions that add up to the score
    transfer      SimComb = PPHTL; several sources
    combining     C-mv, C-wmv, C-hl; sigmoid and margin scores                stacking   PST-S, PST-F, PST-H
    dppsgd, amp   the other private learners
    aggregation   average, feature method, boosted ensemble
    trees         what a boosted ensemble is made of, as plain numbers
    defaults/     the `default` preset: every setting from public facts (n, eps, importance, prevalence, role)
    estimators/   scikit-learn's face of all this
"""
