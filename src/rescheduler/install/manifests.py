"""All objects of an installation, file by file, in the order in which they are applied."""

from collections.abc import Iterable, Mapping
from typing import Any

from rescheduler.install import certificate_objects as certificates
from rescheduler.install import controller_objects as controller
from rescheduler.install import scheduler_objects as scheduler
from rescheduler.install.admission_policies import admission_policies
from rescheduler.install.metadata import CONTROLLER, SCHEDULER
from rescheduler.install.monitoring import monitoring_objects as monitoring
from rescheduler.install.options import resolved_options, switches_of
from rescheduler.install.pods import disruption_budget
from rescheduler.install.roles import controller_access, people_access, scheduler_access
from rescheduler.install.tree import Tree, When, dumped, resolved, without_comments
from rescheduler.migration.memory.move_record_crd import ALL_CRDS

DEFAULT_NAMESPACE = "rescheduler"

NAMESPACE_FILE = "namespace.yaml"
"""Only for kubectl: Helm installs into a namespace that is there."""

MONITORING_FILE = "monitoring.yaml"
ADMISSION_FILE = "admission-policies.yaml"


def when(switch: str, objects: Iterable[Tree]) -> list[Tree]:
    """These objects, if a switch is on."""
    return [{When(switch): [*objects]}]


def with_keep_annotation(definition: dict[str, Any]) -> dict[Any, Tree]:
    """A CustomResourceDefinition that Helm keeps when the chart is removed, if that is wanted."""
    kept = {When("keptCrds"): {"annotations": {"helm.sh/resource-policy": "keep"}}}
    return {**definition, "metadata": {**definition["metadata"], **kept}}


def files() -> dict[str, list[Tree]]:
    """The objects by the file that holds them. `{When(...): [...]}` holds optional ones."""
    return {
        NAMESPACE_FILE: [controller.namespace()],
        "crds.yaml": when("crds", [*map(with_keep_annotation, ALL_CRDS)]),
        "rbac.yaml": [*controller_access(), *people_access()],
        "config.yaml": [controller.controller_config()],
        "controller.yaml": [
            *when("priorityClass", [controller.priority_class()]),
            *when("ownCertificates", certificates.certificate_secrets()),
            controller.controller_deployment(),
            disruption_budget(CONTROLLER),
            *when("networkPolicy", [controller.network_policy()]),
        ],
        "certificates.yaml": when("certManager", certificates.cert_manager_objects()),
        "webhook.yaml": when("extender", [controller.service(), controller.webhook_registration()]),
        "scheduler.yaml": when(
            "scheduler",
            [
                *scheduler_access(),
                scheduler.scheduler_config(),
                scheduler.scheduler_deployment(),
                disruption_budget(SCHEDULER),
            ],
        ),
        ADMISSION_FILE: when("admissionPolicies", admission_policies()),
        MONITORING_FILE: [
            *when("podMonitor", [monitoring.pod_monitor()]),
            *when("alerts", [monitoring.prometheus_rule()]),
            *when("dashboard", [monitoring.dashboard_config()]),
        ],
    }


def resolved_files(
    chosen: Mapping[str, Any], namespace: str = DEFAULT_NAMESPACE
) -> dict[str, list[Tree]]:
    """The objects of one installation by file, with comments; files without objects are left out.

    `chosen`: options that differ from their defaults, by path.
    """
    options = {**resolved_options(chosen, namespace), **monitoring.contents()}
    switches = switches_of(options)
    found = {name: resolved(trees, options, switches) for name, trees in files().items()}
    return {name: objects for name, objects in found.items() if objects}


def manifests(
    chosen: Mapping[str, Any], namespace: str = DEFAULT_NAMESPACE
) -> list[dict[str, Any]]:
    """All objects of one installation, as the API server takes them."""
    found = resolved_files(chosen, namespace).values()
    return [without_comments(each) for objects in found for each in objects]


def stream(objects: Iterable[Tree]) -> str:
    """Objects as one YAML stream."""
    return "---\n".join(map(dumped, objects))
