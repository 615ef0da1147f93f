"""Where data comes from, what is said where it is not there, and conversions from its public files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crossward.errors import NotFound
from crossward_cli.main import commands
from crossward_lab.bench.datasets import files as data_files
from crossward_lab.bench.datasets.files import places
from crossward_lab.bench.public import principal


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data folder, an empty cache, no network."""

    def unreachable(address: str) -> bytes:
        raise data_files.FetchFailed(f"{address} (unreachable)")

    monkeypatch.setenv("CROSSWARD_DATA", str(tmp_path / "absent"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(data_files, "_download", unreachable)
    return tmp_path


@pytest.mark.parametrize("name", ["mnist", "news20", "covertype", "brfss"])
def test_absent_data_is_one_error_that_says_what_to_do(nowhere: Path, name: str) -> None:
    with pytest.raises(NotFound) as caught:
        places(name)
    assert "CROSSWARD_DATA" in caught.value.fix
    assert str(nowhere / "cache") in caught.value.fix


def test_the_command_exits_with_its_own_code(nowhere: Path) -> None:
    done = CliRunner().invoke(commands, ["bench", "brfss"])
    assert done.exit_code == 3
    assert "CROSSWARD_DATA" in done.output


def test_simulated_hospitals_need_no_data(nowhere: Path) -> None:
    assert places("ruijin") == ()


def _idx(labels: list[int]) -> dict[str, bytes]:
    images = np.arange(len(labels) * 784, dtype=np.uint32).astype(np.uint8)
    return {"labels-idx1": bytes(8) + bytes(labels), "images-idx3": bytes(16) + images.tobytes()}


def test_mnist_from_its_home_keeps_our_digits_in_their_order() -> None:
    files = {
        f"{part}-{kind}-ubyte": found
        for part, labels in (("train", [5, 0, 3, 1, 9]), ("t10k", [8, 2]))
        for kind, found in _idx(labels).items()
    }
    arrays = data_files.mnist(files)
    assert arrays["y_train"].tolist() == [0, 3, 9]
    assert arrays["i_train"].tolist() == [1, 2, 4]
    assert arrays["X_train"].shape == (3, 784)
    assert arrays["X_train"][0, 0] == 784 % 256
    assert arrays["y_test"].tolist() == [8]


def test_covertype_from_its_home_keeps_types_one_and_two() -> None:
    def line(wilderness: int, soil: int, kind: int) -> str:
        indicators = [int(i == wilderness) for i in range(4)] + [int(i == soil) for i in range(40)]
        return ",".join(map(str, [*range(10), *indicators, kind]))

    arrays = data_files.covertype("\n".join([line(3, 39, 1), line(0, 0, 5), line(1, 7, 2)]).encode())
    assert arrays["y"].tolist() == [1, 2]
    assert arrays["wilderness"].tolist() == [3, 1]
    assert arrays["soil"].tolist() == [39, 7]
    assert arrays["X_num"].tolist() == [list(range(10))] * 2


def test_what_a_home_serves_must_be_what_we_know(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "_download", lambda _: ",".join(["1"] * 55).encode())
    with pytest.raises(NotFound, match="checksum"):
        places("covertype")
    assert not list((nowhere / "cache").rglob("*.npz"))


def test_components_are_those_of_a_singular_value_decomposition() -> None:
    records = np.random.default_rng(0).normal(size=(50, 6)) @ np.diag([5, 4, 3, 2, 1, 0.5])
    basis = principal(records, 3)
    centred = records - records.mean(axis=0)
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(basis.variances, values[:3] ** 2 / 50)
    np.testing.assert_allclose(np.abs(basis.of(records)), np.abs(centred @ directions[:3].T), atol=1e-9)
