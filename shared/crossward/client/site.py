"""`SiteClient`: a hospital's own service, as its data steward or a clinic's application sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crossward.client.http import Connected, Json
from crossward.client.remote import error_of_job
from crossward.errors import Conflict, Unreachable
from crossward.protocol.constants import FilterKind

if TYPE_CHECKING:
    from crossward.protocol.ledger.lines import Line


Heard = Callable[[Json], None]
"""Is told how far a job has come."""


class SiteClient(Connected):
    """A source's or target's own service."""

    def status(self) -> Json:
        """The whole site at a glance."""
        return self._get("/v1/status")

    def join(self, coordinator: str, code: str) -> Json:
        """Make a key and enrol with it at a coordinator."""
        return self._post("/v1/join", {"coordinator": coordinator, "code": code})

    def rotate(self) -> Json:
        """Change to a fresh key."""
        return self._post("/v1/keys/rotate")

    def keys(self) -> Json:
        """The site's own key (`own`), and other parties' keys that it trusts (`keys`)."""
        return self._get("/v1/keys")

    def pin(self, party: str, public_key: str) -> Json:
        """Trust a party's key, learned from the party itself."""
        return self._post("/v1/keys", {"party": party, "public_key": public_key}, idempotent=True)

    def unpin(self, party: str, key_id: str) -> Json:
        """Trust a party's key no longer; gives the keys that are left."""
        answer: Json = self._http.request("DELETE", f"/v1/keys/{party}/{key_id}").json()
        return answer

    def reconcile(self) -> Json:
        """Take over what the mirror has beyond this ledger, and go on if the two are one chain."""
        return self._post("/v1/reconcile")

    # -- data -------------------------------------------------------------------------------------------------------
    def datasets(self) -> list[Json]:
        """Every dataset, with what it has spent and has left."""
        answer: list[Json] = self._get("/v1/datasets")["datasets"]
        return answer

    def budget(self) -> Json | None:
        """What each person of the site may lose for life, and has left; None before the first dataset is open."""
        answer: Json | None = self._get("/v1/datasets")["budget"]
        return answer

    def check_data(
        self,
        place: Mapping[str, Any],
        mapping: Mapping[str, Any],
        *,
        records_per_person: int = 1,
        study: str | None = None,
        heard: Heard | None = None,
    ) -> Json:
        """Every problem of data that might be opened, at once. Nothing is kept."""
        asked = {"place": dict(place), "mapping": dict(mapping)}
        more = {"records_per_person": records_per_person, "study": study}
        return self._done("/v1/datasets/check", asked | more, heard)

    def open_dataset(
        self,
        name: str,
        place: Mapping[str, Any],
        mapping: Mapping[str, Any],
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        filter: FilterKind = FilterKind.BASIC,
        records_per_person: int = 1,
        study: str | None = None,
        heard: Heard | None = None,
    ) -> Json:
        """Open a dataset; gives its report. The first one brings the lifetime budget of each person at the site."""
        asked = {
            "name": name,
            "place": dict(place),
            "mapping": dict(mapping),
            "epsilon": epsilon,
            "delta": delta,
            "filter": filter,
            "records_per_person": records_per_person,
            "study": study,
        }
        return self._done("/v1/datasets", asked, heard)

    def refresh_dataset(
        self,
        name: str,
        place: Mapping[str, Any] | None = None,
        mapping: Mapping[str, Any] | None = None,
        *,
        study: str | None = None,
        heard: Heard | None = None,
    ) -> Json:
        """Bring a new version of a dataset; gives its report: who came and left. Persons keep their seats."""
        given = {"place": place, "mapping": mapping, "study": study}
        asked = {key: dict(value) if isinstance(value, Mapping) else value for key, value in given.items()}
        return self._done(f"/v1/datasets/{name}/versions", asked, heard)

    def undo_dataset(self, name: str, heard: Heard | None = None, *, whole: bool = False) -> Json:
        """Take the last version of a dataset back, or all of it; refused once anything was charged for it."""
        return self._done(f"/v1/datasets/{name}/undo{'?whole=true' if whole else ''}", None, heard)

    def erase(self, persons: Sequence[str], heard: Heard | None = None) -> Json:
        """Remove persons from every sealed copy, and keep them out. What was spent stays spent."""
        return self._done("/v1/erasures", {"persons": list(persons)}, heard)

    def recover(self, heard: Heard | None = None) -> Json:
        """Go on where the table of seats is lost: every cell is then at the largest spend, and data are opened anew."""
        return self._done("/v1/recovery", None, heard)

    def jobs(self) -> list[Json]:
        """The last jobs, the newest first."""
        answer: list[Json] = self._get("/v1/jobs")["jobs"]
        return answer

    def job(self, number: int) -> Json:
        """How far a job has come, and what it gave."""
        return self._get(f"/v1/jobs/{number}")

    def cancel_job(self, number: int) -> Json:
        """End a job; what it did not finish has not happened, but for what an AUC was charged."""
        answer: Json = self._http.request("DELETE", f"/v1/jobs/{number}").json()
        return answer

    def follow(self, number: int, heard: Heard | None = None) -> Json:
        """Wait for a job's end and give its result, or raise what it failed of; `heard` is told how far it is."""
        pause = 0.02
        while (job := self._looked_up(number))["state"] in ("waiting", "running"):
            if heard is not None:
                heard(job)
            time.sleep(pause)
            pause = min(0.25, 1.1 * pause)  # a tenth of the time that it has taken so far
        if job["state"] == "cancelled":
            raise Conflict(f"Job {number} was cancelled.", _after_cancelling(job["kind"]))
        if job["state"] == "failed":
            raise error_of_job(job["problem"], job["cause"], job["fix"])
        result: Json = job["result"]
        return result

    def _looked_up(self, number: int) -> Json:
        try:
            return self.job(number)
        except Unreachable as error:
            raise Unreachable(error.cause, f"The job goes on: crossward site data follow {number}.") from error

    def _done(self, path: str, asked: Mapping[str, Any] | None, heard: Heard | None) -> Json:
        """Ask for a job, and follow it to its end. The same again, while it has not ended, is that job."""
        job = self._post(path, None if asked is None else dict(asked), idempotent=True)
        return self.follow(job["number"], heard)

    def report(self, name: str, study: str | None = None, heard: Heard | None = None) -> Json:
        """Rows, persons and missing values; with a study, how the records fit it. It stays at the site."""
        if study is None:
            return self._get(f"/v1/datasets/{name}/report")
        return self._done(f"/v1/datasets/{name}/fit", {"study": study}, heard)

    # -- decisions --------------------------------------------------------------------------------------------------
    def policy(self) -> Json:
        """What is refused, approved by itself, or asked."""
        return self._get("/v1/policy")

    def set_policy(self, policy: Mapping[str, Any]) -> Json:
        """New rules, for tasks that are not decided yet."""
        answer: Json = self._http.request("PUT", "/v1/policy", body=dict(policy)).json()
        return answer

    def approvals(self) -> list[Json]:
        """What the steward is asked."""
        answer: list[Json] = self._get("/v1/approvals")["approvals"]
        return answer

    def decide(self, task: str, approve: bool, *, dataset: str | None = None, words: str = "") -> Json:
        """Approve a task, or refuse it. `words` are public."""
        return self._post(f"/v1/approvals/{task}", {"approve": approve, "dataset": dataset, "words": words})

    def tasks(self) -> list[Json]:
        """Every task the site took."""
        answer: list[Json] = self._get("/v1/tasks")["tasks"]
        return answer

    # -- ledger -----------------------------------------------------------------------------------------------------
    def ledger(self) -> list[Line]:
        """The site's own ledger."""
        from crossward.protocol.ledger.lines import Line  # noqa: PLC0415 - it loads scipy, which no other call needs

        lines: list[Line] = []
        while page := self._get("/v1/ledger", after=len(lines))["lines"]:
            lines += [Line.from_text(line) for line in page]
        return lines

    def verify(self) -> Json:
        """Whether the ledger holds and agrees with what the coordinator confirmed."""
        return self._get("/v1/ledger/verify")

    # -- a target's models ------------------------------------------------------------------------------------------
    def studies(self) -> list[Json]:
        """The studies that this target works on or has a model for."""
        answer: list[Json] = self._get("/v1/studies")["studies"]
        return answer

    def model(self, study: str) -> Json:
        """What the model is, and the signed release it was published as."""
        return self._get(f"/v1/studies/{study}/model")

    def predict(self, study: str, records: Sequence[Mapping[str, Any]] | str, words: str = "site") -> Json:
        """Probability, class and contribution of each group, for records or the text of a CSV.

        They come in the site's own columns and units; in the study's with `words="study"`.
        """
        given = {"csv": records} if isinstance(records, str) else {"records": [dict(record) for record in records]}
        return self._post("/v1/predict", {"study": study, "words": words, **given}, idempotent=True)

    def evaluation(self, study: str, heard: Heard | None = None) -> Json:
        """AUC, ROC and calibration on the holdout. It stays at the site."""
        return self._done(f"/v1/studies/{study}/evaluation", None, heard)

    def release_auc(self, study: str, epsilon: float, heard: Heard | None = None) -> Json:
        """Release the AUC on the holdout, paid for. The same epsilon again is the same answer, at no cost."""
        return self._done(f"/v1/studies/{study}/auc", {"epsilon": epsilon}, heard)


def _after_cancelling(kind: str) -> str:
    if kind == "auc":
        return "If it was charged, it stays so: the same epsilon again goes on, and costs nothing more."
    if kind == "erase":
        return (
            "They are kept out of all that is opened from now on, and may be in sealed copies still: erase them again."
        )
    return "Nothing was changed. Ask again."
