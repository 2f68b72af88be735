"""The files of `deploy/`: what `kubectl apply -k deploy/` installs."""

from collections.abc import Mapping
from typing import Any

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
from rescheduler.install.options import KUBE_SCHEDULER, PROJECT_VERSION, VERSION_OF_CLUSTER
from rescheduler.install.scheduler_objects import CONFIG_FILE, ON_NODE, scheduler_configuration
from rescheduler.install.tree import dumped

GENERATED = "# Written by `make manifests` from src/rescheduler/install. Change it there.\n"

KUSTOMIZATION = """\
# Installs the rescheduler: kubectl apply -k deploy/
#
# Set `newName` below first. A kustomization of your own takes `base` as a resource, and `scheduler`
# and `monitoring` as components. docs/deployment.md explains them; the chart in charts/rescheduler
# and `rescheduler manifests --help` have more options.

apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
# Change it here and nowhere else.
namespace: {namespace}
resources: [base]
# A second kube-scheduler (name its image below), for pods with `schedulerName:
# rescheduler-scheduler`; objects for the Prometheus operator, and for a Grafana that collects
# ConfigMaps; and policies that hold the account of the controller to what it has to write:
# components: [scheduler, monitoring, admission-policies]
images:
- name: rescheduler
  newName: {missing}
  newTag: "{tag}"
# The version of your cluster. A scheduler must not be newer than its API server.
# - name: kube-scheduler
#   newName: registry.example/kube-scheduler
#   newTag: {version}
# Changes nothing, and fails if there is no slash in the name of the image.
replacements:
- source:
    kind: Deployment
    name: rescheduler
    fieldPath: spec.template.spec.containers.0.image
    options: {{delimiter: /, index: 1}}
  targets:
  - select: {{kind: Deployment, name: rescheduler}}
    fieldPaths: [spec.template.spec.containers.0.image]
    options: {{delimiter: /, index: 1}}
"""

COMPONENT = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}

MISSING_IMAGE = "Set newName in kustomization.yaml to an image that your nodes can pull"
"""Instead of an image. kubectl shows it, and creates nothing."""

SCHEDULER_FILE = "scheduler.yaml"
SCHEDULER_COMPONENT = {**COMPONENT, "resources": [SCHEDULER_FILE]}

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
# in the address of the extender and the paths of its certificates. scheduler/scheduler.yaml has one
# that runs in a pod.

"""


def kustomize_files() -> dict[str, str]:
    """The content of every file of `deploy/` that is generated, by name."""
    kustomization = KUSTOMIZATION.format(
        namespace=DEFAULT_NAMESPACE,
        missing=MISSING_IMAGE,
        tag=PROJECT_VERSION,
        version=VERSION_OF_CLUSTER,
    )
    configuration = SCHEDULER_HEADER + dumped(scheduler_configuration(ON_NODE))
    return {
        "kustomization.yaml": GENERATED + kustomization,
        CONFIG_FILE: GENERATED + configuration,
        **in_directory("base", base_files()),
        **in_directory("scheduler", scheduler_files()),
        **in_directory("monitoring", monitoring_files()),
        **in_directory("admission-policies", admission_files()),
    }


def in_directory(directory: str, files: dict[str, str]) -> dict[str, str]:
    """The same files, in a directory."""
    return {f"{directory}/{name}": content for name, content in files.items()}


def written_files(chosen: Mapping[str, Any]) -> dict[str, str]:
    """The files of one installation. Kustomizations replace the names of its images."""
    names = {"image.repository": CONTROLLER, "scheduler.image.repository": KUBE_SCHEDULER}
    objects = resolved_files({**names, **chosen})
    return {name: GENERATED + stream(found) for name, found in objects.items()}


def base_files() -> dict[str, str]:
    """What every installation has."""
    found = written_files({})
    base = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [*found],
    }
    return {"kustomization.yaml": GENERATED + dumped(base), **found}


def scheduler_files() -> dict[str, str]:
    """The optional second scheduler."""
    return {
        "kustomization.yaml": GENERATED + dumped(SCHEDULER_COMPONENT),
        SCHEDULER_FILE: written_files({"scheduler.enabled": True})[SCHEDULER_FILE],
    }


def monitoring_files() -> dict[str, str]:
    """The optional component, with the rules and the dashboard as plain files."""
    chosen = {"monitoring.podMonitor": True, "monitoring.alerts": True}
    plain = plain_files()
    return {
        "kustomization.yaml": GENERATED + dumped(MONITORING_COMPONENT),
        "operator.yaml": written_files(chosen)[MONITORING_FILE],
        RULES_FILE: GENERATED + plain[RULES_FILE],
        DASHBOARD_FILE: plain[DASHBOARD_FILE],
    }


def admission_files() -> dict[str, str]:
    """The optional component that holds our account to what it has to write."""
    return {
        "kustomization.yaml": GENERATED + dumped({**COMPONENT, "resources": ["policies.yaml"]}),
        "policies.yaml": written_files({"admissionPolicies.enabled": True})[ADMISSION_FILE],
    }
