"""The coordinator: parties, studies, tasks, released models, and a mirror of every site's ledger.

    main.py         init(settings), serve(settings): what the command line calls
    app.py          create_app(settings): wires routers, database and the clock
    clock.py        what happens by itself: leases and deadlines that pass, aggregation, tidying up
    settings.py     what an operator can set
    identity.py     the coordinator's own key
    tables.py       what is stored; migrations/ brings a database there
    routers/        HTTP, one file per noun
    workflows/      what happens, one file per story; no HTTP in them
    certificate.py  the privacy certificate: its form, its text, its verification

Transactions lock in one order, so that none waits for another in a circle: party, study, task, ledger.
"""
