"""Keys: one spelling, a name, and files nobody else can read."""

import hashlib
import stat

import pytest

from crossward.errors import InvalidSetting, UnsafeKeyFile
from crossward.protocol import keys


def test_a_saved_key_comes_back_and_only_its_owner_can_read_it(tmp_path):
    key, path = keys.generate(), tmp_path / "site.pem"
    keys.save(key, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keys.load(path).private_bytes_raw() == key.private_bytes_raw()


def test_a_key_is_never_overwritten(tmp_path):
    path = tmp_path / "site.pem"
    keys.save(keys.generate(), path)
    before = path.read_bytes()
    with pytest.raises(UnsafeKeyFile, match="exists"):
        keys.save(keys.generate(), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o602, 0o601])
def test_a_key_others_can_use_is_refused(tmp_path, mode):
    path = tmp_path / "site.pem"
    keys.save(keys.generate(), path)
    path.chmod(mode)
    with pytest.raises(UnsafeKeyFile, match=f"{mode:04o}"):
        keys.load(path)


def test_a_mounted_secret_may_be_readable_by_its_group(tmp_path):
    path = tmp_path / "site.pem"
    keys.save(keys.generate(), path)
    path.chmod(0o440)
    keys.load(path)


def test_what_is_no_key_is_refused(tmp_path):
    path = tmp_path / "site.pem"
    path.touch(mode=0o600)
    for content in (b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"):
        path.write_bytes(content)
        with pytest.raises(UnsafeKeyFile, match="does not hold"):
            keys.load(path)
    with pytest.raises(UnsafeKeyFile, match="cannot be read"):
        keys.load(tmp_path / "nowhere.pem")


def test_a_public_key_has_one_spelling_and_a_name():
    key = keys.generate()
    text = keys.public_text(key)
    assert len(text) == 43
    assert keys.public_key(text).public_bytes_raw() == key.public_key().public_bytes_raw()
    assert keys.key_id(key) == hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = text[:-1] + last[last.index(text[-1]) ^ 1]  # the same 32 bytes to a lenient decoder
    for wrong in (other, text + "=", text[:-1], "é" * 43, ""):
        with pytest.raises(InvalidSetting):
            keys.public_key(wrong)
