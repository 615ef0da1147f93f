"""One worker of a site, in a process of its own: does all there is to do, and ends."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from crossward_site.site import Site
from crossward_site.tasks.runner import Pace, Runner

url, home = sys.argv[1], Path(sys.argv[2])
site = Site.open(url, home)
if sys.argv[3:] == ["full"]:  # no file may grow any more, as on a full disk
    sys.dont_write_bytecode = True  # Python would leave half a module behind for others to stumble over
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
runner = Runner(site, pace=Pace(poll=0.0, tick=0.02, pulse=0.05, retry=0.1))
while runner.take() or runner.work():
    pass
