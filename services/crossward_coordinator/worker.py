"""One process of a coordinator that is several: `python -m crossward_coordinator.worker PIPE LISTENER`."""

from __future__ import annotations

from crossward_service.http.worker import begin


def main() -> None:
    """A worker's life."""
    order = begin()
    from crossward_coordinator.app import create_app
    from crossward_coordinator.settings import CoordinatorSettings
    from crossward_service.http.serve import work

    work(create_app, CoordinatorSettings.from_json(order.settings), order)


if __name__ == "__main__":
    main()
