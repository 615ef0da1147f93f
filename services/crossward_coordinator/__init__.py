"""The coordinator: parties, studies, tasks, released models, and a mirror of every site's ledger.

A folder per feature, with the same file names in each:

    parties/  studies/  tasks/  releases/  ledger/  certificates/  people/
        routes.py    HTTP: who may ask, what comes in, what goes out
        service.py   what happens, in the caller's transaction; no HTTP
        tables.py    what is stored, the states it has, and the values that are read from it
        views.py     what is answered
    and beside them what has a name of its own: parties/signatures (a signed request is used once), studies/advance
    (what a study does next), studies/events, studies/public_sets, tasks/results, tasks/aggregate (the coordinator's)

What they share:

    main.py       init(settings), serve(settings): what the command line calls
    app.py        create_app(settings): wires routes, database and the clock
    worker.py     one process of several that serve it
    access.py     who is asking, and the transaction they get
    clock.py      what happens by itself: leases and deadlines that pass, aggregation, tidying up
    settings.py   what an operator can set
    identity.py   the coordinator's own key
    database.py   the tables of all features; migrations/ brings a database there
    openapi.py    bodies that are read as bytes, in the OpenAPI document
    backup.py     doctor.py

A request's transaction is opened by its route's dependencies (`access.Writing`, `access.Reading`); functions that take
a connection never open one. Transactions lock in one order, so that none waits for another in a circle: party, study,
task, ledger.
"""
