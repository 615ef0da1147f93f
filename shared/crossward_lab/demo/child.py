"""One service, served by a process of its own: `python -m crossward_lab.demo.child SERVICE`.

It does what `crossward SERVICE serve` does: the settings come from the CROSSWARD_* variables, and when it is ready it
says so on standard output. Unlike that it ends with its parent, which holds the other end of its standard input.
"""

from __future__ import annotations

import sys

from crossward.errors import CrosswardError, InvalidSetting
from crossward.protocol.constants import COORDINATOR
from crossward_service.http.parent import end_with_parent

STOP_SECONDS = 10.0


def serve(service: str) -> None:
    """Serve until stopped."""
    from crossward_coordinator.main import serve as serve_coordinator
    from crossward_coordinator.settings import CoordinatorSettings
    from crossward_site.main import serve as serve_site
    from crossward_site.settings import SiteSettings
    from crossward_source.settings import SourceSettings
    from crossward_target.settings import TargetSettings

    sites: dict[str, type[SiteSettings]] = {
        kind.service: kind for kind in (SourceSettings, TargetSettings, SiteSettings)
    }
    if service == COORDINATOR:
        serve_coordinator(CoordinatorSettings.load())
    elif service in sites:
        serve_site(sites[service].load())
    else:
        raise InvalidSetting(f"There is no service {service!r}.", f"Use {', '.join((COORDINATOR, *sites))}.")


if __name__ == "__main__":
    end_with_parent(sys.stdin.fileno(), STOP_SECONDS)
    try:
        serve(sys.argv[1])
    except CrosswardError as error:
        sys.exit(f"{type(error).__name__}: {error}")
