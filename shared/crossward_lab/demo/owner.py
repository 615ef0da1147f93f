"""Whoever simulated the hospitals may do what no hospital may: put all records together, without any noise."""

from __future__ import annotations

from crossward.protocol.constants import Role
from crossward.study import Study
from crossward.study.learners.cells import HOLDOUT, LEVEL0
from crossward_lab.demo.federation import LocalFederation
from crossward_lab.demo.records import DATASET
from crossward_lab.simulate.comparison import transfer_without_noise
from crossward_site.data.service import Vault
from crossward_site.models.evaluation import auc
from crossward_site.site import Site as SiteFolder


class SimulatedOwner:
    """Sees every hospital's records, and the folders of the services on this machine."""

    def __init__(self, federation: LocalFederation) -> None:
        self._schema = federation.hospitals.schema
        self._folders = {site.name: site.folder for site in federation.sites}
        self._main = federation.hospitals.main.encode(self._schema)

    def nonprivate_auc(self, name: str, study: Study) -> float:
        """Transfer without noise, trained and tested on the same records as the target's own models."""
        folder = self._folders[name]
        opened = SiteFolder.open(f"sqlite:///{folder / 'target.sqlite3'}", folder)
        try:
            rows = Vault(opened).rows(study, Role.TARGET, DATASET, [LEVEL0, HOLDOUT])
        finally:
            opened.close()
        held = rows.level == HOLDOUT
        model = transfer_without_noise(self._schema, self._main, (rows.X[~held], rows.y[~held]))
        return auc(model.margins(rows.X[held]), rows.y[held]).auc
