"""What a container under test runs: the service as its child, with the faults that the test has laid beside this file.

The first process of a container can neither kill nor halt itself: the kernel ignores it. A child can. `always.json`
holds variables for every start, `once.json` for the next one only.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def _laid(name):
    file = HERE / name
    return json.loads(file.read_text()) if file.exists() else {}


child = subprocess.Popen(["crossward", *sys.argv[1:]], env=os.environ | _laid("always.json") | _laid("once.json"))
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
    signal.signal(number, lambda number, frame: os.kill(child.pid, number))
(HERE / "once.json").unlink(missing_ok=True)
while True:
    status = os.waitpid(child.pid, os.WUNTRACED)[1]
    if not os.WIFSTOPPED(status):
        break
    print("the service is halted", flush=True)
sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
