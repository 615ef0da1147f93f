"""Run a source: python -m crossward_source.main init | join COORDINATOR CODE | token ROLE NAME | serve."""

from __future__ import annotations

import sys

from crossward_service.http import serve as server
from crossward_site import commands
from crossward_source.app import ROLE, create_app
from crossward_source.settings import SourceSettings


def init(settings: SourceSettings) -> str | None:
    """Make the site; gives its first token, once."""
    return commands.init(settings)


def serve(settings: SourceSettings) -> None:
    """Serve until stopped."""
    server.run(create_app(settings), settings)


def main() -> int:
    """The command line of the module; 0 if all went well."""
    return commands.main(SourceSettings.load, ROLE, serve)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
