"""Forks coordinators: each is a real process to be killed, without importing everything anew.

Reads one JSON object per line, `{"settings": {...}, "environment": {...}}`; serves, and says `ended <status>`.
"""

import json
import os
import sys

from crossward_coordinator.main import serve
from crossward_coordinator.settings import CoordinatorSettings

print("ready to fork", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ.update(order["environment"])
        print(f"pid {os.getpid()}", flush=True)
        serve(CoordinatorSettings(**order["settings"]))
        os._exit(0)
    print(f"ended {os.waitpid(child, 0)[1]}", flush=True)
