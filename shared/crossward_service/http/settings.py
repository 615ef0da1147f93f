"""What an operator tells a service: a TOML file, overruled by CROSSWARD_* variables.

The file is the one that CROSSWARD_CONFIG names or, without, `settings.toml` in the data directory.

A setting that is unknown, of the wrong kind, or a secret nobody chose stops the service before it starts. Errors name
the setting and never its value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from sqlalchemy.engine import make_url

from crossward.client.addresses import check_url
from crossward.errors import InvalidSetting

PREFIX = "CROSSWARD_"
CONFIG = "CROSSWARD_CONFIG"
SHORTEST_SECRET = 16
# Long enough that a random secret holds none of them by chance.
PLACEHOLDERS = ("change", "default", "example", "insert", "password", "placeholder", "replace", "secret")


SETTINGS = "settings.toml"
"""The settings file in a data directory: it is read where CROSSWARD_CONFIG names no other."""
DATA_DIR = Path("crossward-data")
"""The data directory that nobody has chosen."""

_file: ContextVar[Path | None] = ContextVar("settings file", default=None)


def home_of(data_dir: str | Path | None) -> Path:
    """The data directory: the one that is given, or that CROSSWARD_DATA_DIR names, or the usual one."""
    return Path(data_dir or os.environ.get("CROSSWARD_DATA_DIR") or DATA_DIR)


def settings_file(data_dir: str | Path) -> Path | None:
    """The settings file of a service: the one that is named, or the one in its data directory."""
    if named := os.environ.get(CONFIG):
        return Path(named)
    beside = Path(data_dir) / SETTINGS
    return beside if beside.is_file() else None


def _place(setting: str, config: Path | None) -> str:
    """Where a setting was said: variables overrule the file."""
    if (variable := f"{PREFIX}{setting}".upper()) in os.environ:
        return variable
    return "the CROSSWARD_* variables" if config is None else str(config)


class ServiceSettings(BaseSettings):
    """The settings every service has; a service adds its own by subclassing, and may rename its database file.

    Paths are relative to the working directory. `tls_ca` is what the service trusts when it calls out; `tls_cert` and
    `tls_key` are what it shows to callers. `database_password_file` holds the password of the database URL, so that
    it need not stand in a variable.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,
        ser_json_inf_nan="constants",
    )
    database_name: ClassVar[str] = "crossward.sqlite3"

    data_dir: Path = DATA_DIR
    database_url: str = Field(default="", repr=False)
    database_password_file: Path | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    public_url: str = ""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    insecure: bool = False
    shutdown_seconds: int = Field(default=20, ge=1)

    @classmethod
    def load(cls, **overrides: Any) -> Self:
        """Read the settings, `overrides` (a command line's options) first; what is wrong is named without its value."""
        config = settings_file(home_of(overrides.get("data_dir")))
        if config is not None and not config.is_file():
            raise InvalidSetting(f"The settings file {config} is not there.", f"Correct {CONFIG}.")
        _file.set(config)
        try:
            return cls(**overrides)
        except InvalidSetting:
            raise
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in error.errors())
            places = dict.fromkeys(_place(str(e["loc"][0]) if e["loc"] else "", config) for e in error.errors())
            raise InvalidSetting(f"Settings refused: {wrong}.", f"Correct {' and '.join(places)}.") from None
        except ValueError as error:  # a file that is not TOML
            raise InvalidSetting(f"The settings cannot be read: {error}.", f"Correct {config}.") from None
        finally:
            _file.set(None)

    def to_json(self) -> str:
        """What another process of this service is told; the database's password stands in its address already.

        Not for services with secrets, which are not written out: without them, the other process refuses to start.
        """
        return self.model_copy(update={"database_password_file": None}).model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The settings that another process read: no file and no variable is looked at again."""
        return cls.model_validate_json(text)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments before variables before the file; no .env file is picked up by chance."""
        config = _file.get() or os.environ.get(CONFIG)
        file = (TomlConfigSettingsSource(settings_cls, Path(config)),) if config else ()
        return (init_settings, env_settings, *file)

    @field_validator("*")
    @classmethod
    def _chosen(cls, value: Any) -> Any:
        """A secret must have been chosen: not empty, not short, not what an example file says."""
        if isinstance(value, SecretStr):
            secret = value.get_secret_value()
            if len(secret) < SHORTEST_SECRET:
                raise ValueError(f"a secret of fewer than {SHORTEST_SECRET} characters")
            if any(word in secret.lower() for word in PLACEHOLDERS) or len(set(secret)) < 6:
                raise ValueError("a placeholder where a secret must be")
        return value

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: Any) -> Any:
        """Without a database URL, an SQLite file in the data directory."""
        if isinstance(values, dict) and not values.get("database_url"):
            folder = Path(values.get("data_dir", cls.model_fields["data_dir"].default))
            values = {**values, "database_url": f"sqlite:///{folder / cls.database_name}"}
        elif isinstance(values, dict) and values.get("database_password_file"):
            values = {
                **values,
                "database_url": _with_password(values["database_url"], values["database_password_file"]),
            }
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together")
        if self.public_url:
            check_url(self.public_url, insecure=True)
        return self

    @property
    def serves_tls(self) -> bool:
        """Whether callers are spoken to over TLS."""
        return self.tls_cert is not None

    @property
    def sqlite_file(self) -> Path | None:
        """Where an SQLite database lies; None for PostgreSQL."""
        url = make_url(self.database_url)
        return Path(url.database or "") if url.get_backend_name() == "sqlite" else None

    def describe(self) -> dict[str, Any]:
        """The settings as they may be shown: secrets and the password of a database URL hidden."""
        return {name: _shown(getattr(self, name)) for name in type(self).model_fields}


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return "********"
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str) and "://" in value:
        return _without_password(value)
    if isinstance(value, BaseModel):
        return {name: _shown(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {name: _shown(each) for name, each in value.items()}
    return value


def _with_password(url: str, file: str | Path) -> str:
    """The URL with the password that a file holds."""
    try:
        password = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"the file {file} of the database's password cannot be read") from None
    scheme, mark, rest = url.partition("://")
    user, at, place = rest.partition("@")
    if not at or ":" in user or "/" in user:
        raise ValueError("with database_password_file, write the database's address as postgresql://user@host/name")
    return f"{scheme}{mark}{user}:{quote(password, safe='')}@{place}"


def _without_password(url: str) -> str:
    """Scheme, host and path: users stand before the @, and drivers take passwords in the query too."""
    scheme, _, rest = url.partition("://")
    _, at, place = rest.rpartition("@")
    shown, mark, _ = place.partition("?")
    return f"{scheme}://{'********@' if at else ''}{shown}{'?********' if mark else ''}"
