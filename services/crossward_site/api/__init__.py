"""The site's own HTTP interface, the same at a source and at a target. Callers belong to the site.

app.py        the application: edge, token, routers, and the runner's life
access.py     who is asking, and what a route works on
overview.py   /status, /tasks, /ledger
data.py       /datasets
decisions.py  /policy, /approvals
joining.py    /join, /keys, /reconcile
"""

from crossward_site.api.app import site_app

__all__ = ["site_app"]
