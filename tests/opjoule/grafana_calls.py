"""How the tests call `opjoule grafana`, and what its pushes ask for."""

from pathlib import Path

from opjoule.__main__ import main
from opjoule.dashboards import DASHBOARDS
from tests.opjoule.grafana_server import GrafanaServer

UIDS = [dashboard["uid"] for dashboard in DASHBOARDS.values()]
FIRST_PUSH = [
    "GET /api/health",
    "GET /api/datasources/uid/opjoule-influxdb",
    "POST /api/datasources",
    "GET /api/folders/opjoule",
    "POST /api/folders",
    *(line for uid in UIDS for line in (f"GET /api/dashboards/uid/{uid}", "POST /api/dashboards/db")),
]
SECOND_PUSH = [
    "GET /api/health",
    "GET /api/datasources/uid/opjoule-influxdb",
    "GET /api/folders/opjoule",
    *(
        line
        for uid in UIDS
        for line in (f"GET /api/dashboards/uid/{uid}", f"GET /api/dashboards/uid/{uid}/versions?limit=1")
    ),
]


STORE_FLAG = "--grafana-influx-url"


def opjoule_grafana(server: GrafanaServer, grafana_token: Path, action: str = "push", *flags: str) -> int:
    """Exit status of `opjoule grafana ACTION` on this server; a push names the store that the tests begin with."""
    store = [STORE_FLAG, "http://influxdb:8086"] if action == "push" and STORE_FLAG not in flags else []
    return without_store(server, grafana_token, action, *store, *flags)


def without_store(server: GrafanaServer, grafana_token: Path, action: str, *flags: str) -> int:
    """The same with these flags only."""
    return main(["grafana", action, "--grafana-url", server.url, "--grafana-token-file", str(grafana_token), *flags])
