"""The learners of the papers. Each is a frozen set of public settings with `release(n, features)`, what it will
release, known before a record is touched, and `fit(X, y)`, which checks, charges, draws, solves and releases.

    encoding/     from raw tables to columns, by a public feature schema; feature groups
    records       records inside a ball; losses; solver; regulariser (the pull of hypothesis transfer)
    plr           PLR: one private logistic model                 plr_fs   PLR-FS: K feature groups, one budget
    stacking/     PST-S, PST-F, PST-H; sigmoid and margin scores; C-mv, C-wmv, C-hl
    transfer/     SimComb = PPHTL, SourceD, Direct; several sources
    dppsgd, amp   the other private learners
    aggregation/  average, feature method, boosted ensemble
    defaults/     the `default` preset: every setting from public facts (n, eps, importance, prevalence, role)
    estimators    scikit-learn's face of all this
    audit/        every mechanism above, put to the test
"""
