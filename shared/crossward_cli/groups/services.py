"""`crossward coordinator|source|target init|token|tokens|revoke-token|serve|backup|restore`: run a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossward_cli.groups.options import DataDir, Json, Tokens

Host = Annotated[str | None, typer.Option(help="Address to listen on; loopback by default.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")]


def service(role: Literal["coordinator", "source", "target"]) -> typer.Typer:
    """The commands of one kind of service."""
    group = typer.Typer(help=f"Run a {role}.", no_args_is_help=True)

    @group.command("init")
    def init(data_dir: DataDir = None, tokens: Tokens = None, json: Json = False) -> None:
        """Make its folder, database and keys; prints its first tokens, once."""
        from crossward_cli.services import initialise, initialise_quietly

        if tokens is None:
            initialise(role, data_dir, as_json=json)
        else:
            initialise_quietly(role, data_dir, tokens)

    @group.command("token")
    def token(
        kind: Annotated[str, typer.Argument(help="operator, lead, auditor; at a site steward or clinic.")],
        name: Annotated[str, typer.Argument(help="Who it is for.")],
        data_dir: DataDir = None,
    ) -> None:
        """Make one more token."""
        from crossward_cli.services import new_token

        new_token(role, data_dir, kind, name)

    @group.command("tokens")
    def held_tokens(data_dir: DataDir = None, json: Json = False) -> None:
        """Who holds a token, of which role, since when; never the token itself."""
        from crossward_cli.services import show_tokens

        show_tokens(role, data_dir, as_json=json)

    @group.command("revoke-token")
    def revoke_token(
        name: Annotated[str, typer.Argument(help="Who holds it, from `tokens`.")],
        data_dir: DataDir = None,
        json: Json = False,
    ) -> None:
        """Make a token worthless at once, while the service runs or not. The name is then free for a new one."""
        from crossward_cli import services

        services.revoke_token(role, data_dir, name, as_json=json)

    @group.command("serve")
    def serve(data_dir: DataDir = None, host: Host = None, port: Port = None, tokens: Tokens = None) -> None:
        """Serve until stopped. Further settings: CROSSWARD_* variables or the file CROSSWARD_CONFIG names.

        With --tokens it is initialised first, if it was not: one command for a container.
        """
        from crossward_cli.services import initialise_quietly, run

        if tokens is not None:
            initialise_quietly(role, data_dir, tokens)
        run(role, data_dir, host, port)

    @group.command("backup")
    def backup(
        file: Annotated[Path, typer.Argument(help="A new file; - is standard output.")],
        data_dir: DataDir = None,
        json: Json = False,
    ) -> None:
        """Write all it needs to come back to one file, while it runs. It holds private keys: keep it encrypted."""
        from crossward_cli.upkeep import make_backup

        make_backup(role, data_dir, file, as_json=json)

    @group.command("restore")
    def restore(
        file: Annotated[Path, typer.Argument(help="A backup; - is standard input.")],
        data_dir: DataDir = None,
        json: Json = False,
    ) -> None:
        """Make it anew from a backup, in a data directory that holds none."""
        from crossward_cli.upkeep import restore_backup

        restore_backup(role, data_dir, file, as_json=json)

    return group
