"""The image scan: whatever must not be in an image is found, wherever it hides, and what cannot be read is refused."""

import io
import json
import runpy
import tarfile
from pathlib import Path

import pytest

SCAN = runpy.run_path(str(Path(__file__).parents[2] / "deploy" / "scan.py"))
CLEAN = {"User": "10001:10001", "Entrypoint": ["crossward"], "Env": ["PATH=/bin", "CROSSWARD_TOKEN=/run/token"]}


def add(archive, name, content=b"", mode=0o644, **more):
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    for key, value in more.items():
        setattr(member, key, value)
    archive.addfile(member, io.BytesIO(content))


def layer(*files):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name, content, mode, more in files:
            add(archive, name, content, mode, **more)
    return held.getvalue()


def file(name, content=b"text", mode=0o644, **more):
    return name, content, mode, more


@pytest.fixture
def saved(tmp_path):
    def save(*layers, history=(), **config):
        path = tmp_path / "image.tar"
        described = {"config": CLEAN | config, "history": [{"created_by": step} for step in history]}
        with tarfile.open(path, "w") as archive:
            add(archive, "config.json", json.dumps(described).encode())
            names = [f"{number}/layer.tar" for number, _ in enumerate(layers)]
            for name, files in zip(names, layers, strict=True):
                add(archive, name, layer(*files))
            manifest = [{"Config": "config.json", "Layers": names}]
            add(archive, "manifest.json", json.dumps(manifest).encode())
        return str(path)

    return save


def scan(path, capsys):
    code = SCAN["main"](path)
    return code, capsys.readouterr().out


def test_a_clean_image_passes_and_it_says_what_was_looked_at(saved, capsys):
    files = [
        file("opt/crossward/bin/crossward", mode=0o755),
        file("tmp", b"", 0o1777, type=tarfile.DIRTYPE),
        file("etc/ssl/certs/ca-certificates.crt", b"-----BEGIN CERTIFICATE-----\nMIIB\n"),
        file("lib/keys.py", b'HEAD = "-----BEGIN PRIVATE KEY-----"'),
        file("usr/lib/bash", b"words about it", 0o644),
    ]
    code, out = scan(saved(files), capsys)
    assert code == 0
    assert "5 files in 1 layers" in out


KEY = b"-----BEGIN PRIVATE KEY-----\n" + b"MC4CAQAwBQYDK2VwBCIEIJ" * 3
PLANTED = {
    "shell": file("bin/sh", mode=0o755),
    "shell by a link": file("bin/bash", b"", 0o777, type=tarfile.SYMTYPE, linkname="other"),
    "package manager": file("usr/bin/apt-get", mode=0o755),
    "python's package manager": file("opt/lib/site-packages/pip/__init__.py"),
    "tool": file("usr/bin/perl", mode=0o755),
    "setuid": file("usr/bin/anything", mode=0o4755),
    "open rights": file("etc/hosts", mode=0o666),
    "device": file("dev/sda", b"", 0o600, type=tarfile.BLKTYPE),
    "key by its name": file("data/coordinator.key"),
    "key by its content": file("data/harmless", KEY),
    "token": file("etc/motd", b"cw_lead_" + b"a1" * 21 + b"b"),
    "pip's settings": file("root/.config/pip/pip.conf"),
}


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("layer", [0, 1])
def test_what_is_planted_in_any_layer_is_found(saved, capsys, what, layer):
    layers = [[file("opt/app.py")], [file("opt/other.py")]]
    layers[layer].append(PLANTED[what])
    code, out = scan(saved(*layers), capsys)
    assert code == 1
    assert PLANTED[what][0] in out
    assert "1 found" in out


@pytest.mark.parametrize(
    "config",
    [
        {"User": ""},
        {"User": "0"},
        {"User": "crossward"},
        {"Entrypoint": ["/bin/sh", "-c", "crossward"]},
        {"Healthcheck": {"Test": ["CMD-SHELL", "true"]}},
        {"Env": ["DB_PASSWORD=hunter2"]},
        {"Env": ["INDEX=https://user:hunter2@index.example/simple"]},
        {"history": ["RUN pip install --index-url https://user:hunter2@index.example/simple"]},
    ],
)
def test_what_the_configuration_must_not_say_is_found(saved, capsys, config):
    code, out = scan(saved([file("opt/app.py")], **config), capsys)
    assert code == 1
    assert "1 found" in out
    assert "hunter2" not in out


def test_what_cannot_be_looked_at_is_refused(saved, tmp_path, capsys):
    (tmp_path / "torn.tar").write_bytes(Path(saved([file("opt/app.py")])).read_bytes()[:700])
    assert scan(str(tmp_path / "torn.tar"), capsys)[0] == 2
    assert scan(saved(), capsys)[0] == 2
    assert scan("no-such-image:at-all", capsys)[0] == 2
