"""Run a target: python -m crossward_target.main init | join COORDINATOR CODE | token ROLE NAME | serve."""

from __future__ import annotations

import sys

from crossward_service.http import serve as server
from crossward_site import commands
from crossward_target.app import ROLE, create_app
from crossward_target.settings import TargetSettings


def init(settings: TargetSettings) -> str | None:
    """Make the site; gives its first token, once."""
    return commands.init(settings)


def serve(settings: TargetSettings) -> None:
    """Serve until stopped."""
    server.run(create_app(settings), settings)


def main() -> int:
    """The command line of the module; 0 if all went well."""
    return commands.main(TargetSettings.load, ROLE, serve)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
