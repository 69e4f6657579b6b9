"""Grafana dashboards, alert rules and provisioning as Python values; deploy/grafana is written from them."""

from opjoule.dashboards.compare import compare
from opjoule.dashboards.energy import energy
from opjoule.dashboards.fleet_health import fleet_health
from opjoule.dashboards.fleet_live import fleet_live
from opjoule.dashboards.parts import Json

DASHBOARDS: dict[str, Json] = {
    "fleet_live": fleet_live(),
    "energy": energy(),
    "compare": compare(),
    "fleet_health": fleet_health(),
}
"""Every dashboard by the name of its file."""
