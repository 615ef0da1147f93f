"""Real servers on loopback, the way a user meets them."""

import runpy
from pathlib import Path

SERVERS = runpy.run_path(str(Path(__file__).parents[2] / "servers.py"))
running, serve, serve_all, http = (SERVERS[name] for name in ("running", "serve", "serve_all", "http"))
