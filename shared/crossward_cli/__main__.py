"""`python -m crossward_cli` is the `crossward` command."""

from crossward_cli.main import app

app()
