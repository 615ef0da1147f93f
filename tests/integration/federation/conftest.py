"""A small federation of real services, shared by the tests of this folder."""

import pytest

from crossward_lab.demo.federation import LocalFederation
from crossward_lab.simulate.hospitals import Federation


@pytest.fixture(scope="package")
def federation(tmp_path_factory):
    hospitals = Federation.simulate(branches=2, seed=1, scale=0.3)
    with LocalFederation(tmp_path_factory.mktemp("federation"), hospitals) as running:
        yield running
