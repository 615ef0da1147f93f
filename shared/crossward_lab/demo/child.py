"""One service, served by a process of its own: `python -m crossward_lab.demo.child SERVICE`.

It does what `crossward SERVICE serve` does: the settings come from the CROSSWARD_* variables, and when it is ready it
says so on standard output.
"""

from __future__ import annotations

import sys

from crossward.errors import CrosswardError, InvalidSetting
from crossward.protocol.constants import COORDINATOR
from crossward_coordinator.main import serve as serve_coordinator
from crossward_coordinator.settings import CoordinatorSettings
from crossward_site.main import serve as serve_site
from crossward_site.settings import SiteSettings
from crossward_source.settings import SourceSettings
from crossward_target.settings import TargetSettings

SITES: dict[str, type[SiteSettings]] = {kind.service: kind for kind in (SourceSettings, TargetSettings, SiteSettings)}


def serve(service: str) -> None:
    """Serve until stopped."""
    if service == COORDINATOR:
        serve_coordinator(CoordinatorSettings.load())
    elif service in SITES:
        serve_site(SITES[service].load())
    else:
        raise InvalidSetting(f"There is no service {service!r}.", f"Use {', '.join((COORDINATOR, *SITES))}.")


if __name__ == "__main__":
    try:
        serve(sys.argv[1])
    except CrosswardError as error:
        sys.exit(f"{type(error).__name__}: {error}")
