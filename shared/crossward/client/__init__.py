"""The Python client: `Client` talks to a coordinator, `SiteClient` to a hospital's own service.

>>> from crossward import Client
>>> with Client("https://coordinator.example", token) as client:  # doctest: +SKIP
...     client.create(Path("study.yaml").read_text())
"""

from crossward.client.coordinator import Client, Event
from crossward.client.site import SiteClient

__all__ = ["Client", "Event", "SiteClient"]
