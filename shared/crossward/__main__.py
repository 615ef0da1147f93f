"""`python -m crossward` is the `crossward` command."""

from crossward.cli.main import app

app()
