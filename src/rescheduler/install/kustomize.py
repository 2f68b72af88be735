"""The files of `deploy/`: what `kubectl apply -k deploy/` installs."""

from rescheduler.install.manifests import (
    ADMISSION_FILE,
    DEFAULT_NAMESPACE,
    MONITORING_FILE,
    resolved_files,
    stream,
)
from rescheduler.install.metadata import CONTROLLER, labels
from rescheduler.install.monitoring.monitoring_objects import (
    DASHBOARD_FILE,
    DASHBOARD_LABEL,
    DASHBOARD_NAME,
    RULES_FILE,
    plain_files,
)
from rescheduler.install.options import DEFAULTS, PROJECT_VERSION
from rescheduler.install.scheduler_objects import CONFIG_FILE, ON_NODE, scheduler_configuration
from rescheduler.install.tree import dumped

GENERATED = "# Written by `make manifests` from src/rescheduler/install. Change it there.\n"

KUSTOMIZATION = """\
# Installs the rescheduler: kubectl apply -k deploy/
#
# First say where both images are pulled from: add `newName` with your registry below. To install
# less, `rescheduler manifests --help` and the chart in charts/rescheduler have switches.
# docs/deployment.md explains both.

apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
# Change it here and nowhere else.
namespace: {namespace}
resources:
{resources}
# With the Prometheus operator, and a Grafana that collects ConfigMaps:
# components: [monitoring]
# With policies that hold the account of the controller to what it has to write; and with both:
# components: [admission-policies]
# components: [monitoring, admission-policies]
images:
- name: rescheduler
  newTag: "{tag}"
# The version of your cluster.
- name: kube-scheduler
  newTag: {scheduler_tag}
"""

COMPONENT = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}

MONITORING_COMPONENT = {
    **COMPONENT,
    "resources": ["operator.yaml"],
    "configMapGenerator": [
        {
            "name": DASHBOARD_NAME,
            "files": [f"rescheduler.json={DASHBOARD_FILE}"],
            "options": {
                "disableNameSuffixHash": True,
                "labels": {**labels(CONTROLLER), DASHBOARD_LABEL: "1"},
            },
        }
    ],
}
"""Scraping, alerts and the dashboard, for those who have what they need."""

SCHEDULER_HEADER = """\
# A kube-scheduler that calls the rescheduler before it schedules a pod, for pods with
# `schedulerName: rescheduler-scheduler`. To have it called for all other pods as well, copy
# `extenders` into the configuration of the default scheduler: extenders are called for the pods of
# every profile of a scheduler.
#
# This one is for a scheduler that runs on a node. Give it to kube-scheduler with --config, and fill
# in the address of the extender and the paths of its certificates. scheduler.yaml has one that runs
# in a pod.

"""


def kustomize_files() -> dict[str, str]:
    """The content of every file of `deploy/` that is generated, by name."""
    found = {name: GENERATED + stream(objects) for name, objects in resolved_files({}).items()}
    resources = "\n".join(f"- {name}" for name in found)
    kustomization = KUSTOMIZATION.format(
        namespace=DEFAULT_NAMESPACE,
        resources=resources,
        tag=PROJECT_VERSION,
        scheduler_tag=str(DEFAULTS["scheduler.image"]).rpartition(":")[2],
    )
    configuration = SCHEDULER_HEADER + dumped(scheduler_configuration(ON_NODE))
    return {
        "kustomization.yaml": GENERATED + kustomization,
        CONFIG_FILE: GENERATED + configuration,
        **found,
        **{f"monitoring/{name}": content for name, content in monitoring_files().items()},
        **{f"admission-policies/{name}": content for name, content in admission_files().items()},
    }


def monitoring_files() -> dict[str, str]:
    """The optional component, with the rules and the dashboard as plain files."""
    chosen = {"monitoring.podMonitor": True, "monitoring.alerts": True}
    plain = plain_files()
    return {
        "kustomization.yaml": GENERATED + dumped(MONITORING_COMPONENT),
        "operator.yaml": GENERATED + stream(resolved_files(chosen)[MONITORING_FILE]),
        RULES_FILE: GENERATED + plain[RULES_FILE],
        DASHBOARD_FILE: plain[DASHBOARD_FILE],
    }


def admission_files() -> dict[str, str]:
    """The optional component that holds our account to what it has to write."""
    objects = resolved_files({"admissionPolicies.enabled": True})[ADMISSION_FILE]
    return {
        "kustomization.yaml": GENERATED + dumped({**COMPONENT, "resources": ["policies.yaml"]}),
        "policies.yaml": GENERATED + stream(objects),
    }
