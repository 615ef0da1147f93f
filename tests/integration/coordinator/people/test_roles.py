"""Who may do what: each role its own, parties about themselves, and nobody without a token or a signature."""

import pytest

from crossward.client.http import NEVER, HttpClient
from crossward.errors import (
    AccessRefused,
    MissingToken,
    NotFound,
    Unsigned,
    WrongRole,
)
from crossward.protocol import keys


def test_who_may_do_what(small):
    site = small.site("main", "source")
    other = small.site("west", "source")
    for role, method, path in (
        ("lead", "POST", "/parties/invites"),
        ("auditor", "POST", "/studies"),
        ("operator", "POST", "/studies/x/start"),
        ("lead", "DELETE", "/parties/main"),
        ("auditor", "POST", "/parties/main/reconcile"),
    ):
        with pytest.raises(WrongRole):
            small.ask(role, method, path, body={})
    with HttpClient(small.url, retry=NEVER) as nobody:
        for path in (
            "/parties",
            "/studies",
            "/studies/x",
            "/studies/x/events",
            "/ledger/main",
            f"/releases/{'0' * 64}",
        ):
            with pytest.raises(MissingToken):
                nobody.get(f"/v1{path}")
        with pytest.raises(Unsigned):
            nobody.post("/v1/tasks/next?protocol=1")
    with pytest.raises(Unsigned):
        small.ask("operator", "POST", "/tasks/next")
    for method, path, body in (
        ("GET", "/v1/ledger/west", None),
        ("POST", "/v1/ledger/west/lines", {"lines": []}),
        ("POST", "/v1/parties/west/keys", {"public_key": keys.public_text(keys.generate())}),
    ):
        with pytest.raises(AccessRefused, match="may not ask about west"):
            site.call(method, path, body=body)
    assert other.call("GET", "/v1/ledger/west").json()["lines"] == []
    with pytest.raises(NotFound):
        small.ask("auditor", "GET", "/ledger/nobody")
