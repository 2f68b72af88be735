"""The kinds of the Prometheus operator that an installation uses, with the fields that it uses.

The operator itself does not run here. The API server refuses fields that are not named.
"""

from testcluster import TestCluster
from testcluster.client import JsonObject
from tests.install.cert_manager import TEXT, definition, fields, serve_kinds

GROUP = "monitoring.coreos.com"
TEXT_BY_NAME: JsonObject = {"type": "object", "additionalProperties": TEXT}


def listed(items: JsonObject) -> JsonObject:
    """A schema of a list."""
    return {"type": "array", "items": items}


RULE = fields(
    {
        "alert": TEXT,
        "expr": {"x-kubernetes-int-or-string": True},
        "for": {"type": "string", "pattern": "^(0|(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?)$"},
        "labels": TEXT_BY_NAME,
        "annotations": TEXT_BY_NAME,
    },
    "expr",
)

SPECS: dict[str, JsonObject] = {
    "PodMonitor": fields(
        {
            "selector": fields({"matchLabels": TEXT_BY_NAME}),
            "podMetricsEndpoints": listed(fields({"port": TEXT, "path": TEXT})),
        },
        "selector",
    ),
    "PrometheusRule": fields(
        {"groups": listed(fields({"name": TEXT, "rules": listed(RULE)}, "name"))}
    ),
}


def serve_operator_kinds(cluster: TestCluster) -> None:
    """Have the API server know PodMonitors and PrometheusRules."""
    serve_kinds(cluster, [definition(kind, GROUP, spec) for kind, spec in SPECS.items()])
