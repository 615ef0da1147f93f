"""Run a service, and keep it well: `crossward coordinator|source|target|site ...` and `crossward doctor`.

`ServiceCommands` is one kind of service as its operator knows it. Its subclasses are all that the command line knows of
the services' own packages; the commands below are the same for every kind.
"""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crossward.errors import InvalidSetting
from crossward_cli.options import DataDir, Json, Tokens
from crossward_cli.output import print_json, print_table, say, tell
from crossward_service.ops.files import write_file

if TYPE_CHECKING:
    from crossward_coordinator.settings import CoordinatorSettings
    from crossward_service.db.tokens import HeldToken
    from crossward_service.http.settings import ServiceSettings
    from crossward_service.ops.backup import Kind, Manifest
    from crossward_service.ops.findings import Finding, Findings
    from crossward_site.settings import SiteSettings

S = TypeVar("S", bound="ServiceSettings")

VERDICT_COLOURS = {"ok": "green", "warning": "yellow", "fault": "bold red"}


class ServiceCommands(ABC, Generic[S]):
    """One kind of service. `first_roles` are those whose tokens a new one is given."""

    name: str
    first_roles: tuple[str, ...]

    @abstractmethod
    def settings(self, **options: Any) -> S:
        """Its settings, options before variables before the file; an option that is None was not used."""

    @abstractmethod
    def init(self, settings: S) -> Mapping[str, str]:
        """Make its folder, database and keys; gives its first tokens by role, once."""

    @abstractmethod
    def new_token(self, settings: S, role: str, name: str) -> str:
        """One more token."""

    @abstractmethod
    def token_holders(self, settings: S) -> Sequence[HeldToken[Any]]:
        """Who holds a token, the oldest first."""

    @abstractmethod
    def revoke_token(self, settings: S, name: str) -> None:
        """Make a token worthless."""

    @abstractmethod
    def serve(self, settings: S) -> None:
        """Serve until stopped."""

    @abstractmethod
    def examine(self, settings: S, coordinator: str | None) -> Findings:
        """What is wrong with it, if anything."""

    @abstractmethod
    def backup_kind(self, settings: S) -> Kind:
        """What its backup holds."""


class CoordinatorCommands(ServiceCommands["CoordinatorSettings"]):
    """The coordinator."""

    name = "coordinator"
    first_roles = ("operator", "lead", "auditor")

    def settings(self, **options: Any) -> CoordinatorSettings:
        """Its settings."""
        from crossward_coordinator.settings import CoordinatorSettings

        return CoordinatorSettings.load(**_used(options))

    def init(self, settings: CoordinatorSettings) -> Mapping[str, str]:
        """Its first tokens."""
        from crossward_coordinator.main import init

        return {str(role): token for role, token in init(settings).tokens.items()}

    def new_token(self, settings: CoordinatorSettings, role: str, name: str) -> str:
        """A token for a person."""
        from crossward_coordinator.main import issue_token

        return issue_token(settings, role, name)

    def token_holders(self, settings: CoordinatorSettings) -> Sequence[HeldToken[Any]]:
        """The people."""
        from crossward_coordinator.main import held_tokens

        return held_tokens(settings)

    def revoke_token(self, settings: CoordinatorSettings, name: str) -> None:
        """Forget a person."""
        from crossward_coordinator.main import revoke_token

        revoke_token(settings, name)

    def serve(self, settings: CoordinatorSettings) -> None:
        """Serve."""
        from crossward_coordinator.main import serve

        serve(settings)

    def examine(self, settings: CoordinatorSettings, coordinator: str | None) -> Findings:
        """Database, mirrors, clock and how it is reached."""
        from crossward_coordinator.doctor import examine

        return examine(settings)

    def backup_kind(self, settings: CoordinatorSettings) -> Kind:
        """Database and key."""
        from crossward_coordinator.backup import kind

        return kind(settings)


class SiteCommands(ServiceCommands["SiteSettings"]):
    """A hospital's site, in both roles."""

    name = "site"
    first_roles = ("steward",)

    def settings(self, **options: Any) -> SiteSettings:
        """Its settings."""
        from crossward_site.settings import SiteSettings

        return SiteSettings.load(**_used(options))

    def init(self, settings: SiteSettings) -> Mapping[str, str]:
        """The steward's token."""
        from crossward_site.main import init

        token = init(settings)
        return {} if token is None else {"steward": token}

    def new_token(self, settings: SiteSettings, role: str, name: str) -> str:
        """A token for a steward or a clinic."""
        from crossward_site.main import new_token

        return new_token(settings, role, name)

    def token_holders(self, settings: SiteSettings) -> Sequence[HeldToken[Any]]:
        """Stewards and clinics."""
        from crossward_site.main import held_tokens

        return held_tokens(settings)

    def revoke_token(self, settings: SiteSettings, name: str) -> None:
        """Forget a steward or a clinic."""
        from crossward_site.main import revoke_token

        revoke_token(settings, name)

    def serve(self, settings: SiteSettings) -> None:
        """Serve."""
        from crossward_site.main import serve

        serve(settings)

    def examine(self, settings: SiteSettings, coordinator: str | None) -> Findings:
        """Everything between its records and its coordinator."""
        from crossward_site.doctor import examine

        return examine(settings, coordinator)

    def backup_kind(self, settings: SiteSettings) -> Kind:
        """Database, keys and secret."""
        from crossward_site.backup import kind

        return kind(settings)


class SourceCommands(SiteCommands):
    """A site that is a source."""

    name = "source"

    def settings(self, **options: Any) -> SiteSettings:
        """Its settings."""
        from crossward_source.settings import SourceSettings

        return SourceSettings.load(**_used(options))


class TargetCommands(SiteCommands):
    """A site that is a target."""

    name = "target"

    def settings(self, **options: Any) -> SiteSettings:
        """Its settings."""
        from crossward_target.settings import TargetSettings

        return TargetSettings.load(**_used(options))


SERVICES: dict[str, ServiceCommands[Any]] = {
    service.name: service for service in (CoordinatorCommands(), SourceCommands(), TargetCommands(), SiteCommands())
}
Name = Literal["coordinator", "source", "target", "site"]


def _used(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


# -- the commands of every service ----------------------------------------------------------------------------------
Host = Annotated[str | None, typer.Option(help="Address to listen on; loopback by default.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")]
Holder = Annotated[str, typer.Argument(help="Who holds it, from `tokens`.")]
NewBackup = Annotated[Path, typer.Argument(help="A new file; - is standard output.")]
Backup = Annotated[Path, typer.Argument(help="A backup; - is standard input.")]


def group_of(service: ServiceCommands[S]) -> typer.Typer:
    """The commands of one kind of service."""
    group = typer.Typer(help=f"Run a {service.name}.", no_args_is_help=True)
    add_commands(group, service)
    return group


def add_commands(group: typer.Typer, service: ServiceCommands[S]) -> None:
    """Give a group the commands that start and keep a service."""

    @group.command("init")
    def init(data_dir: DataDir = None, tokens: Tokens = None, json: Json = False) -> None:
        """Make its folder, database and keys; prints its first tokens, once."""
        if tokens is None:
            _init(service, data_dir, as_json=json)
        else:
            home = _init_with_files(service, data_dir, tokens)
            if json:
                files = {role: str(tokens / role) for role in service.first_roles}
                print_json({"data_dir": str(home), "token_files": files})

    @group.command("token")
    def token(
        role: Annotated[str, typer.Argument(help="operator, lead, auditor; at a site steward or clinic.")],
        name: Annotated[str, typer.Argument(help="Who it is for.")],
        data_dir: DataDir = None,
        json: Json = False,
    ) -> None:
        """Make one more token."""
        secret = service.new_token(service.settings(data_dir=data_dir), role, name)
        tell({"role": role, "name": name, "token": secret}, secret, as_json=json)

    @group.command("tokens")
    def tokens(data_dir: DataDir = None, json: Json = False) -> None:
        """Who holds a token, of which role, since when; never the token itself."""
        _show_holders(service.token_holders(service.settings(data_dir=data_dir)), as_json=json)

    @group.command("revoke-token")
    def revoke_token(name: Holder, data_dir: DataDir = None, json: Json = False) -> None:
        """Make a token worthless at once, while the service runs or not. The name is then free for a new one."""
        service.revoke_token(service.settings(data_dir=data_dir), name)
        tell({"revoked": name}, f"The token of {name} opens nothing any more.", as_json=json)

    @group.command("serve")
    def serve(data_dir: DataDir = None, host: Host = None, port: Port = None, tokens: Tokens = None) -> None:
        """Serve until stopped. Further settings: CROSSWARD_* variables, or settings.toml in its data directory.

        With --tokens it is initialised first, if it was not: one command for a container.
        """
        if tokens is not None:
            _init_with_files(service, data_dir, tokens)
        service.serve(service.settings(data_dir=data_dir, host=host, port=port))

    @group.command("backup")
    def backup(file: NewBackup, data_dir: DataDir = None, json: Json = False) -> None:
        """Write all it needs to come back to one file, while it runs. It holds private keys: keep it encrypted."""
        from crossward_service.ops.backup import PIPE, backup

        settings = service.settings(data_dir=data_dir)
        manifest = backup(service.backup_kind(settings), settings, file)
        text = f"{file}: {manifest.summary}. It holds private keys: keep it encrypted."
        _tell_manifest(manifest, text, as_json=json and file != PIPE)

    @group.command("restore")
    def restore(file: Backup, data_dir: DataDir = None, json: Json = False) -> None:
        """Make it anew from a backup, in a data directory that holds none."""
        from crossward_service.ops.backup import restore

        settings = service.settings(data_dir=data_dir)
        manifest = restore(service.backup_kind(settings), settings, file)
        start = f"Start it with: crossward {service.name} serve"
        text = f"{settings.data_dir}: {manifest.summary}, as of {manifest.created}. {start}"
        _tell_manifest(manifest, text, as_json=json)


coordinator, source, target = (group_of(SERVICES[name]) for name in ("coordinator", "source", "target"))


@coordinator.command("key")
def show_key(data_dir: DataDir = None, json: Json = False) -> None:
    """Print the public key that verifies its receipts and certificates: tell it to auditors yourself."""
    from crossward_coordinator.main import public_key

    key = public_key(CoordinatorCommands().settings(data_dir=data_dir))
    tell({"public_key": key}, key, as_json=json)


def _init(service: ServiceCommands[S], data_dir: Path | None, *, as_json: bool) -> None:
    """Initialise a service and print its first tokens."""
    from crossward_service.http.settings import settings_file

    settings = service.settings(data_dir=data_dir)
    tokens = dict(service.init(settings))
    file = settings_file(settings.data_dir)
    if as_json:
        named = {} if file is None else {"settings_file": str(file)}
        print_json({"data_dir": str(settings.data_dir), "tokens": tokens} | named)
        return
    say(f"The {service.name} is ready in {settings.data_dir}.")
    if tokens:
        say("Tokens, shown now and never again:")
        for role, token in tokens.items():
            say(f"  {role:9} {token}", wrap=False)
    else:
        say(f"It was there already; make another token with: crossward {service.name} token")
    if file is not None:
        what = " Declare in it which folders and databases may be read." if isinstance(service, SiteCommands) else ""
        say(f"Its settings are {file}.{what}")
    say(f"Start it with: crossward {service.name} serve")


def _init_with_files(service: ServiceCommands[S], data_dir: Path | None, folder: Path) -> Path:
    """Initialise a service and leave a token of each role in a file; a file that is there stays. Gives its folder.

    Killed between the database and the files, the next call finds tokens without files and makes others: those whose
    hash alone is left can open nothing.
    """
    settings = service.settings(data_dir=data_dir)
    first = service.init(settings)
    for role in service.first_roles:
        path = folder / role
        if not path.exists():
            token = first.get(role) or service.new_token(settings, role, f"{role} {secrets.token_hex(4)}")
            write_file(path, f"{token}\n".encode())
    return settings.data_dir


def _show_holders(holders: Sequence[HeldToken[Any]], *, as_json: bool) -> None:
    from crossward.protocol.times import moment

    rows = [(holder.name, holder.role, moment(holder.created).isoformat(timespec="seconds")) for holder in holders]
    if as_json:
        print_json([dict(zip(("name", "role", "since"), row, strict=True)) for row in rows])
    else:
        print_table(("name", "role", "since"), rows)


def _tell_manifest(manifest: Manifest, text: str, *, as_json: bool) -> None:
    """For people on standard error: a backup may be on standard output."""
    if as_json:
        print_json(asdict(manifest))
    else:
        Console(stderr=True).print(escape(text), highlight=False, soft_wrap=True)


# -- the doctor -----------------------------------------------------------------------------------------------------
def doctor(
    service: Annotated[
        Name | None, typer.Argument(help="Which service; by default the one whose data directory it is.")
    ] = None,
    data_dir: DataDir = None,
    coordinator: Annotated[
        str | None,
        typer.Option(envvar="CROSSWARD_COORDINATOR", help="Where to look for one before the site has joined."),
    ] = None,
    json: Json = False,
) -> None:
    """Examine a service on its own machine, running or not: what is wrong, and what to fix. It changes nothing."""
    with Console(stderr=True).status("examining"):
        findings = _examine(service, data_dir, coordinator)
    if json:
        print_json([finding.to_dict() for finding in findings.items])
    else:
        _show_findings(findings.items)
    if findings.faulty:
        raise typer.Exit(1)


def _examine(name: str | None, data_dir: Path | None, coordinator: str | None) -> Findings:
    from crossward_service.http.settings import settings_file  # where no service can run, that is no finding about one
    from crossward_service.ops.findings import Findings

    findings = Findings()
    with findings.looking_at("settings") as note:
        service = SERVICES[name or _guess(data_dir)]
        settings = service.settings(data_dir=data_dir)
        note.ok(f"A {service.name}, by the variables CROSSWARD_* and {settings_file(settings.data_dir) or 'no file'}.")
        findings.items += service.examine(settings, coordinator).items
    return findings


def _guess(data_dir: Path | None) -> str:
    """The service that lives in the data directory, by what only it keeps there; of a site, the role that it joined in.

    A database that is PostgreSQL's is not there, but the coordinator's key or the site's secret is. The settings file
    of one is none for the other: it is read once it is known whose it is.
    """
    from crossward_coordinator.settings import KEY, CoordinatorSettings
    from crossward_service.http.settings import home_of
    from crossward_site.identity import secret
    from crossward_site.main import enrolled_role
    from crossward_site.settings import SiteSettings

    home, key = home_of(data_dir), os.environ.get("CROSSWARD_KEY_FILE")
    coordinates = _is_there(home / CoordinatorSettings.database_name, Path(key) if key else home / KEY)
    if coordinates == _is_there(home / SiteSettings.database_name, home / secret.FILE):
        raise InvalidSetting(
            f"Which service is meant cannot be seen from {home}.",
            f"Say which: crossward doctor {' | '.join(SERVICES)}, and set CROSSWARD_DATA_DIR.",
        )
    return "coordinator" if coordinates else enrolled_role(SiteCommands().settings(data_dir=data_dir)) or "site"


def _is_there(*paths: Path) -> bool:
    return any(path.exists() for path in paths)


def _show_findings(findings: list[Finding]) -> None:
    table = Table("check", "", "found", "what to do")
    for item in findings:
        verdict = f"[{VERDICT_COLOURS[item.verdict]}]{item.verdict}[/]"
        table.add_row(escape(item.check), verdict, escape(item.observation), escape(item.fix))
    Console().print(table)
