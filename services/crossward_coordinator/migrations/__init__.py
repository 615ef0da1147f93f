"""The coordinator's chain of migrations, run by `crossward_coordinator.database`; it needs no ini file."""
