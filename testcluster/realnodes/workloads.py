"""Pods that run on real nodes; for the `template` of a builder."""

from typing import Any

from testcluster.client import JsonObject
from testcluster.realnodes.images import TRAFFIC_IMAGE

NODE_NAME: JsonObject = {"fieldRef": {"fieldPath": "spec.nodeName"}}


def web_server(*options: str, port: int = 8080, **container: Any) -> JsonObject:
    """The spec of a pod with the web server of testcluster/go/traffic.

    `options` are those of its mode `serve`. Its readiness is probed on `port`, every second. Other
    arguments are fields of its container, in camelCase.
    """
    return {
        "containers": [
            {
                "name": "web",
                "image": TRAFFIC_IMAGE,
                "imagePullPolicy": "Never",
                "args": ["serve", *options],
                "env": [{"name": "NODE_NAME", "valueFrom": NODE_NAME}],
                "resources": {"requests": {"cpu": "20m", "memory": "16Mi"}},
                "readinessProbe": {
                    "httpGet": {"path": "/readyz", "port": port},
                    "periodSeconds": 1,
                    # On a busy machine an answer may take long, and the pod is no worse for it.
                    "timeoutSeconds": 10,
                },
                **container,
            }
        ]
    }
