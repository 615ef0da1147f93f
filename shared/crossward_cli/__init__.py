"""The command line: `crossward demo`, `audit`, `bench`. Tables for people, `--json` for machines."""
