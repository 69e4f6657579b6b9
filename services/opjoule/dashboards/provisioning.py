"""What Grafana reads at its start: the data source, and where the dashboards lie. Pure."""

from opjoule.dashboards.parts import DATASOURCE_UID, FOLDER_TITLE, FOLDER_UID, Json

TOKEN_FILE = "/run/secrets/grafana_influx_token"
"""Where the container finds its token, which may read and nothing else."""
DASHBOARDS_FOLDER = "/etc/grafana/dashboards/opjoule"
"""Where the container finds dashboards/*.json."""


def influxdb(url: str, bucket: str, authorization: str = "") -> Json:
    """The data source: InfluxQL by GET, which also InfluxDB 2 answers through its DBRP mapping."""
    made: Json = {
        "uid": DATASOURCE_UID,
        "name": "opjoule InfluxDB",
        "type": "influxdb",
        "access": "proxy",
        "url": url,
        "isDefault": False,
        "jsonData": {"dbName": bucket, "httpMode": "GET", "version": "InfluxQL"},
    }
    if authorization:
        made["jsonData"]["httpHeaderName1"] = "Authorization"
        made["secureJsonData"] = {"httpHeaderValue1": authorization}
    return made


def datasources() -> Json:
    """The file of provisioning/datasources. Grafana puts in the environment's values and the content of the file."""
    source = influxdb("$OPJOULE_INFLUX_URL", "$OPJOULE_INFLUX_BUCKET", f"Token $__file{{{TOKEN_FILE}}}")
    return {"apiVersion": 1, "datasources": [{**source, "orgId": 1, "editable": False}]}


def dashboard_folders() -> Json:
    """The file of provisioning/dashboards."""
    provider = {
        "name": "opjoule",
        "orgId": 1,
        "folder": FOLDER_TITLE,
        "folderUid": FOLDER_UID,
        "type": "file",
        "disableDeletion": False,
        "allowUiUpdates": False,
        "updateIntervalSeconds": 60,
        "options": {"path": DASHBOARDS_FOLDER},
    }
    return {"apiVersion": 1, "providers": [provider]}
