#!/usr/bin/env python3
"""Looks into an image for what must not be there: deploy/scan.py IMAGE, or a file that `docker save` wrote.

Every file of every layer is looked at, also what a later layer hides, and the configuration and the history of the
build. Findings are printed and end in 1; an image that cannot be looked at ends in 2. Nothing found is 0.
"""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

SHELLS = {"sh", "ash", "bash", "dash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish", "busybox", "toybox"}
INSTALLERS = {"apt", "apt-get", "dpkg", "apk", "yum", "dnf", "rpm", "zypper", "pacman", "pip", "pip3", "conda", "uv"}
TOOLS = {"perl", "curl", "wget", "nc", "ncat", "ssh", "scp", "telnet", "sudo", "su", "mount", "gcc", "make", "gdb"}
PROGRAMS = {"a shell": SHELLS, "a package manager": INSTALLERS, "a tool for intruders": TOOLS}
MODULES = re.compile(r"(.*/)?(pip|setuptools|ensurepip)/__init__\.pyc?")
SECRET_FILES = re.compile(
    r"(.*/)?(id_(rsa|dsa|ecdsa|ed25519)|\.netrc|\.pgpass|\.env|\.git|\.npmrc|\.pypirc|pip\.conf|credentials(\.json)?"
    r"|.*\.(key|p12|pfx|jks|kdbx)|site\.secret|\.docker/config\.json)"
)
SECRETS = {
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{32}",
    "a token of ours": rb"\bcw_[a-z]+_[A-Za-z0-9_-]{43}\b",
    "a cloud key": rb"\bAKIA[0-9A-Z]{16}\b",
    "a forge's token": rb"\b(gh[pousr]_[A-Za-z0-9]{36}|glpat-[A-Za-z0-9_-]{20})\b",
}
SECRET_NAME = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|CREDENTIAL|PRIVATE|API_?KEY", re.IGNORECASE)
PASSWORD_IN_URL = re.compile(r"\w+://[^/\s:@]+:[^/\s:@]+@")
LARGEST = 4 << 20  # bytes of a file that are searched for secrets: libraries are larger
SHARED = {"tmp", "var/tmp", "dev/shm"}


class Unreadable(Exception):
    """The image cannot be looked at."""


@dataclass
class Scan:
    """What was looked at and what was found."""

    findings: list[str] = field(default_factory=list)
    files: int = 0
    layers: int = 0

    def image(self, saved: Path) -> None:
        """An image as `docker save` writes it."""
        try:
            with tarfile.open(saved) as archive:
                (manifest,) = json.load(_member(archive, "manifest.json"))
                self._configuration(json.load(_member(archive, manifest["Config"])))
                for layer in manifest["Layers"]:
                    self.layers += 1
                    with tarfile.open(fileobj=_member(archive, layer)) as files:
                        self._layer(files)
        except (tarfile.TarError, KeyError, ValueError, OSError) as error:
            raise Unreadable(f"{saved}: {error}") from error
        if not self.files:
            raise Unreadable(f"{saved} holds no files.")

    def _configuration(self, image: dict[str, Any]) -> None:
        config = image["config"]
        user = str(config.get("User") or "root").partition(":")[0]
        if not user.isdigit() or int(user) == 0:
            self.findings.append(f"runs as {user}: name a user by a number above 0")
        for kind in ("Entrypoint", "Cmd"):
            self._command(kind, config.get(kind) or [])
        self._command("Healthcheck", (config.get("Healthcheck") or {}).get("Test") or [])
        for setting in config.get("Env") or []:
            self._setting(setting)
        for step in image.get("history") or []:
            words = str(step.get("created_by", ""))
            if PASSWORD_IN_URL.search(words) or any(re.search(p, words.encode()) for p in SECRETS.values()):
                self.findings.append("the history of the build holds a secret")

    def _command(self, kind: str, words: list[str]) -> None:
        if words[:1] == ["CMD-SHELL"] or any(PurePosixPath(word).name in SHELLS for word in words):
            self.findings.append(f"{kind} needs a shell")

    def _setting(self, setting: str) -> None:
        name, _, value = setting.partition("=")
        if SECRET_NAME.search(name) and value and not value.startswith("/"):
            self.findings.append(f"the environment sets {name}")
        if PASSWORD_IN_URL.search(value) or any(re.search(p, value.encode()) for p in SECRETS.values()):
            self.findings.append(f"the environment holds a secret in {name}")

    def _layer(self, files: tarfile.TarFile) -> None:
        for member in files:
            self.files += 1
            self.findings += [f"/{member.name}: {what}" for what in _rights(member)]
            self.findings += [f"/{member.name}: {what}" for what in _names(member)]
            if member.isreg() and member.size <= LARGEST:
                content = _content(files, member)
                self.findings += [
                    f"/{member.name}: holds {what}" for what, how in SECRETS.items() if re.search(how, content)
                ]


def _rights(member: tarfile.TarInfo) -> Iterator[str]:
    if member.mode & (stat.S_ISUID | stat.S_ISGID) and not member.isdir():
        yield f"setuid or setgid, mode {member.mode:o}"
    if member.mode & stat.S_IWOTH and not member.issym() and member.name.strip("./") not in SHARED:
        yield f"anyone may write it, mode {member.mode:o}"
    if member.isdev():
        yield "a device"


def _names(member: tarfile.TarInfo) -> Iterator[str]:
    if member.isdir():
        return
    name = PurePosixPath(member.name).name
    for what, names in PROGRAMS.items():
        if name in names and (member.issym() or member.islnk() or member.mode & 0o111):
            yield what
    if MODULES.fullmatch(member.name):
        yield "a package manager"
    if SECRET_FILES.fullmatch(member.name):
        yield "looks like a secret"


def _content(files: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = files.extractfile(member)
    return opened.read() if opened else b""


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found


def _saved(image: str, folder: Path) -> Path:
    if Path(image).is_file():
        return Path(image)
    saved = folder / "image.tar"
    try:
        done = subprocess.run(
            ["docker", "save", "--output", str(saved), image], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise Unreadable(f"docker cannot be run: {error}") from error
    if done.returncode:
        raise Unreadable(done.stderr.strip())
    return saved


def main(image: str) -> int:
    """Scan, say what was found."""
    scan = Scan()
    try:
        with tempfile.TemporaryDirectory() as folder:
            scan.image(_saved(image, Path(folder)))
    except Unreadable as error:
        print(f"scan: {image} cannot be looked at: {error}", file=sys.stderr)
        return 2
    for finding in scan.findings:
        print(f"scan: {finding}")
    print(f"scan: looked at {scan.files:,} files in {scan.layers} layers, the configuration and the build's history")
    print("scan: for shells, installers, intruders' tools, root, setuid, open rights, devices, keys, tokens, passwords")
    print(f"scan: {image}: {len(scan.findings) or 'nothing'} found")
    return 1 if scan.findings else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: deploy/scan.py IMAGE|FILE")
    sys.exit(main(sys.argv[1]))
