"""What happens, one file per story, inside the caller's transaction; no HTTP here.

enrol         invite, join with a site-made key, rotate
parties       who takes part: list, stop, reconcile, revoke
tokens        people and their roles
nonces        signed requests are used once
studies       check, create, start, cancel, look at
public_sets   the aggregator's public records
advance       what a study does next; every study ends
tasks         next, heartbeat, decline
results       a result is taken, once
late          sources that the quorum was reached without
mirror        the copy of a party's ledger, and what happens when it disagrees
aggregate     the coordinator's own task under the feature method
deadlines     what happens by itself when time passes
certificates  what was released, by whom, at what cost
events        what a lead watches
"""
