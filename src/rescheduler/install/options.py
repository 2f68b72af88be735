"""The options of an installation: `values.yaml` of the chart, with defaults and descriptions.

`deploy/` is the same installation with the default of every option.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from rescheduler.errors import SettingsError
from rescheduler.install.metadata import COMPONENT_LABEL, CONTROLLER, SCHEDULER, labels
from rescheduler.install.policy_schema import policy_schema
from rescheduler.install.tree import Expressions
from rescheduler.labels import HANDOFF, HOSTNAME
from rescheduler.settings import Policy, StrategyName

PROJECT_VERSION = version("kube-rescheduler")
EXTENDER_PORT, MONITORING_PORT = 8443, 8080
SERVING, MONITORING = "serving", "monitoring"
"""The names of these ports."""

KUBE_SCHEDULER = "kube-scheduler"
VERSION_OF_CLUSTER = "VERSION-OF-YOUR-CLUSTER"
"""The tag of kube-scheduler where the version of the cluster is not known."""

SERVICE_ENDS = (".svc", ".svc.cluster.local")

OWN_REQUESTS = (
    "request.userInfo.username.startsWith('system:serviceaccount:') "
    "&& request.userInfo.username.endsWith(':{}')"
)
"""CEL, with the name of our account: of which namespace, a kustomization may still change."""

NODE_LEASES = "kube-node-lease"
"""A namespace without pods: a list of namespaces that a policy is about may not be empty."""

METRICS_PATH = "/metrics"
SCRAPE_ANNOTATIONS = {
    "prometheus.io/scrape": "true",
    "prometheus.io/port": str(MONITORING_PORT),
    "prometheus.io/path": METRICS_PATH,
}
"""What a Prometheus without an operator usually looks for."""

AGGREGATION = {
    f"rbac.authorization.k8s.io/aggregate-to-{name}": "true" for name in ("view", "edit", "admin")
}
"""Labels of a role that becomes part of roles which every cluster has."""

COMPONENTS = {CONTROLLER: "", SCHEDULER: "scheduler."}
"""By component: with what its own options begin."""

JsonSchema = Mapping[str, Any]

BOOLEAN: JsonSchema = {"type": "boolean"}
TEXT: JsonSchema = {"type": "string"}
WORD: JsonSchema = {"type": "string", "minLength": 1}
COUNT: JsonSchema = {"type": "integer", "minimum": 1}
MAPPING: JsonSchema = {"type": "object"}
OBJECTS: JsonSchema = {"type": "array", "items": {"type": "object"}}
WORDS: JsonSchema = {"type": "array", "items": {"type": "string", "minLength": 1}}
PORTS: JsonSchema = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "integer", "minimum": 1, "maximum": 65535},
}


@dataclass(frozen=True)
class InstallOption:
    """One option: its path in `values.yaml`, its default, and what it does."""

    path: str
    default: Any
    schema: JsonSchema
    description: str

    @property
    def expression(self) -> str:
        """The option in a template. Helm would write a million as 1e+06."""
        cast = " | int64" if self.schema["type"] == "integer" else ""
        return f".Values.{self.path}{cast}"

    @property
    def is_structured(self) -> bool:
        """Whether its values are mappings or lists."""
        return self.schema["type"] in ("object", "array")


EXCLUDED_NAMESPACES = ["kube-system", "kube-public"]
DEFAULT_POLICY: dict[str, Any] = {
    "reschedulingInterval": "30s",
    "enabledStrategies": [
        str(name) for name in (*Policy().enabled_strategies, StrategyName.NODE_MAINTENANCE)
    ],
    "cpuThreshold": 80.0,
    "memoryThreshold": 80.0,
    "imbalanceThreshold": 20.0,
    "maxReschedulePods": 10,
    "excludedNamespaces": EXCLUDED_NAMESPACES,
    "excludedPodSelector": "",
}

POD_SECURITY: dict[str, Any] = {
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The user is that of the image, or one that the platform chooses, as OpenShift does.

Without a user and a group in here, kubelets let any user read the files of tokens and Secrets.
"""

CONTAINER_SECURITY: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

OPTIONS = (
    InstallOption(
        "dryRun",
        False,
        BOOLEAN,
        "Plan and log, but change nothing. The roles then hold no right to write, and neither the "
        "extender nor the second scheduler is installed.",
    ),
    InstallOption(
        "extender.enabled",
        True,
        BOOLEAN,
        "Serve the scheduler extender and the webhook, which steers the replacement of an evicted "
        "pod to its target node. Without them, only the controller is installed.",
    ),
    InstallOption(
        "scheduler.enabled",
        False,
        BOOLEAN,
        "Install a second kube-scheduler that calls the extender, for pods with schedulerName: "
        "rescheduler-scheduler. It needs extender.enabled and scheduler.image.repository.",
    ),
    InstallOption(
        "scheduler.image.repository",
        "",
        TEXT,
        "The image of kube-scheduler, with the registry that your nodes pull it from.",
    ),
    InstallOption(
        "scheduler.image.tag",
        "",
        TEXT,
        "Its tag; the version of your cluster if it is empty. A scheduler must not be newer than "
        "its API server.",
    ),
    InstallOption(
        "scheduler.image.digest", "", TEXT, "Its digest, such as sha256:…, instead of a tag."
    ),
    InstallOption("scheduler.replicas", 2, COUNT, "How many second schedulers; one is active."),
    InstallOption(
        "certManager.enabled",
        False,
        BOOLEAN,
        "Let cert-manager, which must be installed, issue the certificates of the extender and the "
        "webhook. Otherwise the controller issues them, with the right to two Secrets of its own.",
    ),
    InstallOption(
        "image.repository",
        "",
        TEXT,
        "The image of the rescheduler, with the registry that your nodes pull it from. There is no "
        "default: nothing is installed without it.",
    ),
    InstallOption("image.tag", "", TEXT, "Its tag; the version of the chart if it is empty."),
    InstallOption("image.digest", "", TEXT, "Its digest, such as sha256:…, instead of a tag."),
    InstallOption(
        "image.pullPolicy",
        "IfNotPresent",
        {"type": "string", "enum": ["Always", "IfNotPresent", "Never"]},
        "When the kubelet pulls both images.",
    ),
    InstallOption(
        "imagePullSecrets", [], OBJECTS, "Secrets for the registry, such as [{name: registry}]."
    ),
    InstallOption("replicas", 2, COUNT, "How many controllers. One acts, the others stand by."),
    InstallOption(
        "policy",
        DEFAULT_POLICY,
        policy_schema(),
        "What is improved and how far it may go; docs/policy.md describes every field. Fields that "
        "you leave out keep these values; unknown and wrong ones are refused. A change is picked "
        "up while the controller runs.",
    ),
    InstallOption(
        "resources",
        {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        MAPPING,
        "Requests and limits of the controller.",
    ),
    InstallOption(
        "scheduler.resources",
        {"requests": {"cpu": "100m", "memory": "128Mi"}},
        MAPPING,
        "Requests and limits of the second scheduler.",
    ),
    InstallOption(
        "extraArgs",
        [],
        WORDS,
        "More arguments of the controller, such as [--log-format=json]; rescheduler run --help "
        "lists all. They may name variables: $(POD_NAMESPACE).",
    ),
    InstallOption(
        "extraEnv",
        [],
        OBJECTS,
        "More environment variables of the controller, such as "
        "[{name: OTEL_SERVICE_NAME, value: mover}].",
    ),
    InstallOption(
        "scheduler.extraArgs", [], WORDS, "More arguments of the second scheduler, such as [--v=4]."
    ),
    InstallOption(
        "podSecurityContext",
        POD_SECURITY,
        MAPPING,
        "The security context of the controller's pods. Its image names the user 65532; without "
        "one in here, OpenShift can choose another.",
    ),
    InstallOption(
        "securityContext",
        CONTAINER_SECURITY,
        MAPPING,
        "The security context of the controller's container.",
    ),
    InstallOption(
        "scheduler.podSecurityContext",
        {**POD_SECURITY, "runAsUser": 65532},
        MAPPING,
        "The security context of the second scheduler's pods. The image of kube-scheduler names no "
        "user, so one is named here; on OpenShift, which chooses one, set runAsUser to null.",
    ),
    InstallOption(
        "scheduler.securityContext",
        CONTAINER_SECURITY,
        MAPPING,
        "The security context of the second scheduler's container.",
    ),
    InstallOption("nodeSelector", {}, MAPPING, "Labels of the nodes to run on."),
    InstallOption("tolerations", [], OBJECTS, "Taints of nodes to run on all the same."),
    InstallOption(
        "affinity",
        {},
        MAPPING,
        "The affinity of the controller's pods, instead of the one by which they prefer different "
        "nodes.",
    ),
    InstallOption("scheduler.affinity", {}, MAPPING, "The same for the second scheduler's pods."),
    InstallOption(
        "topologySpreadConstraints",
        [],
        OBJECTS,
        "Spread the controller's pods, for example over zones; the labelSelector is up to you.",
    ),
    InstallOption(
        "scheduler.topologySpreadConstraints",
        [],
        OBJECTS,
        "The same for the second scheduler's pods.",
    ),
    InstallOption("podLabels", {}, MAPPING, "More labels of the pods."),
    InstallOption(
        "podAnnotations",
        {HANDOFF: "never"},
        MAPPING,
        "Annotations of the pods. Those of this one are evicted where others are handed over, so "
        "the controller creates no pod in its own namespace, and a policy can forbid it.",
    ),
    InstallOption("deploymentLabels", {}, MAPPING, "More labels of the Deployments."),
    InstallOption("deploymentAnnotations", {}, MAPPING, "More annotations of the Deployments."),
    InstallOption(
        "serviceAccount.create",
        True,
        BOOLEAN,
        "Create the service account of the controller. Otherwise one of this name must be there.",
    ),
    InstallOption("serviceAccount.name", CONTROLLER, WORD, "Its name."),
    InstallOption(
        "serviceAccount.annotations", {}, MAPPING, "Its annotations, such as those of a cloud."
    ),
    InstallOption("extraVolumes", [], OBJECTS, "More volumes of the controller's pods."),
    InstallOption("extraVolumeMounts", [], OBJECTS, "Where its container mounts them."),
    InstallOption(
        "priorityClass.name",
        "",
        TEXT,
        "A PriorityClass that exists, for our own pods. Otherwise one is installed.",
    ),
    InstallOption(
        "priorityClass.value",
        1_000_000,
        {"type": "integer", "maximum": 1_000_000_000},
        "The priority of our own pods: above that of applications. It is part of the name of the "
        "PriorityClass, whose value cannot be changed.",
    ),
    InstallOption(
        "networkPolicy.enabled",
        True,
        BOOLEAN,
        "Install a NetworkPolicy: in, only to our ports; out, only to the ports of DNS (53, 5353) "
        "and of the API server, at any address unless the options below name some.",
    ),
    InstallOption(
        "networkPolicy.apiServerPorts",
        [443, 6443, 8443, 16443],
        PORTS,
        "The ports at which the API server may listen, after any translation of addresses: 6443 "
        "with kubeadm and OpenShift, 8443 with vcluster, 16443 with MicroK8s.",
    ),
    InstallOption(
        "networkPolicy.apiServerCidrs",
        [],
        WORDS,
        "The addresses of the API servers, after any translation, such as [10.0.0.0/28]; any if it "
        "is empty.",
    ),
    InstallOption(
        "networkPolicy.dnsPeers",
        [],
        OBJECTS,
        "The DNS servers, as peers of a NetworkPolicy; any address if it is empty, for they have "
        "other labels in each cluster, and a cache on the node has none.",
    ),
    InstallOption(
        "networkPolicy.monitoringFrom",
        [],
        OBJECTS,
        "Who may read metrics, as peers of a NetworkPolicy; anyone if it is empty. "
        "Kubelets always may.",
    ),
    InstallOption(
        "networkPolicy.extraEgress",
        [],
        OBJECTS,
        "What else the controller may reach, as egress rules of a NetworkPolicy: for example a "
        "collector of traces.",
    ),
    InstallOption(
        "admissionPolicies.enabled",
        False,
        BOOLEAN,
        "Install ValidatingAdmissionPolicies (Kubernetes 1.30) that let the account of the "
        "controller write only what it has to. Pods in the namespaces of policy.excludedNamespaces "
        "then stay whoever asks for a move, and privileged pods cannot be handed over; "
        "docs/security.md says what is stopped.",
    ),
    InstallOption(
        "monitoring.annotations",
        True,
        BOOLEAN,
        "Annotate the pods with prometheus.io/scrape, port and path, for a Prometheus that looks "
        "for them.",
    ),
    InstallOption(
        "monitoring.podMonitor",
        False,
        BOOLEAN,
        "Install a PodMonitor, which has the Prometheus operator scrape all replicas.",
    ),
    InstallOption(
        "monitoring.alerts",
        False,
        BOOLEAN,
        "Install the alert rules as a PrometheusRule, for the Prometheus operator.",
    ),
    InstallOption(
        "monitoring.dashboard",
        False,
        BOOLEAN,
        "Install the dashboard as a ConfigMap with the label grafana_dashboard, for a Grafana that "
        "collects them.",
    ),
    InstallOption(
        "monitoring.labels",
        {},
        MAPPING,
        "More labels of the PodMonitor and the PrometheusRule, if your Prometheus selects them by "
        "label.",
    ),
    InstallOption(
        "crds.install",
        True,
        BOOLEAN,
        "Install the CustomResourceDefinitions of Migrations and MoveRecords. They are updated "
        "with the chart, and deleted with it.",
    ),
    InstallOption(
        "crds.keep",
        False,
        BOOLEAN,
        "Keep them, with all Migrations and MoveRecords, when the chart is removed.",
    ),
)

DEFAULTS: Mapping[str, Any] = {option.path: option.default for option in OPTIONS}


def apart(component: str) -> dict[str, Any]:
    """The affinity by which the pods of a component prefer different nodes."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels(component)}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def missing_image(option: str, program: str) -> str:
    """What to do where no image is named."""
    return (
        f"{option} is not set: name an image of {program} that your nodes can pull, for example "
        f"registry.example/{program}"
    )


def image_reference(options: Mapping[str, Any], path: str, program: str, tag: str) -> str:
    """The image that some options name; with this tag, if they name none."""
    repository, digest = options[f"{path}.repository"], options[f"{path}.digest"]
    if not repository:
        raise SettingsError(missing_image(f"{path}.repository", program))
    return f"{repository}@{digest}" if digest else f"{repository}:{options[f'{path}.tag'] or tag}"


def resolved_options(chosen: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Every option by its path, and what follows from them for the trees."""
    options = {**DEFAULTS, **chosen}
    switches = switches_of(options)
    serves = "extender" in switches
    image = image_reference(options, "image", CONTROLLER, PROJECT_VERSION)
    scheduler_image = (
        image_reference(options, "scheduler.image", KUBE_SCHEDULER, VERSION_OF_CLUSTER)
        if "scheduler" in switches
        else ""
    )
    return {
        **options,
        "image": image,
        "schedulerImage": scheduler_image,
        "namespace": namespace,
        "priorityClassName": options["priorityClass.name"]
        or f"{CONTROLLER}-{options['priorityClass.value']}",
        "ownRequests": OWN_REQUESTS.format(options["serviceAccount.name"]),
        "closedNamespaces": [
            *(options["policy"].get("excludedNamespaces", EXCLUDED_NAMESPACES) or ()),
            NODE_LEASES,
        ],
        "serviceNames": [CONTROLLER, *(f"{CONTROLLER}.{namespace}{end}" for end in SERVICE_ENDS)],
        "certificateKey": f"{namespace}/{CONTROLLER}",
        "readinessPort": SERVING if serves else MONITORING,
        "readinessScheme": "HTTPS" if serves else "HTTP",
        "monitoringLabels": {**options["monitoring.labels"], **labels(CONTROLLER)},
        f"{CONTROLLER}.podAnnotations": {
            **(SCRAPE_ANNOTATIONS if options["monitoring.annotations"] else {}),
            **options["podAnnotations"],
        },
        **{
            f"{component}.{name}": value
            for component, prefix in COMPONENTS.items()
            for name, value in {
                "labels": labels(component),
                "aggregatedLabels": {**labels(component), **AGGREGATION},
                "deploymentLabels": {**options["deploymentLabels"], **labels(component)},
                "podLabels": {**options["podLabels"], **labels(component)},
                "affinity": options[f"{prefix}affinity"] or apart(component),
            }.items()
        },
        "apiServerPorts": [
            {"port": port, "protocol": "TCP"} for port in options["networkPolicy.apiServerPorts"]
        ],
        "apiServerPeers": [
            {"ipBlock": {"cidr": cidr}} for cidr in options["networkPolicy.apiServerCidrs"]
        ],
    }


def switches_of(options: Mapping[str, Any]) -> set[str]:
    """The switches that are on with these options."""
    moves = not options["dryRun"]
    extender = moves and options["extender.enabled"]
    conditions = {
        "moves": moves,
        "dryRun": not moves,
        "extender": extender,
        "certManager": extender and options["certManager.enabled"],
        "ownCertificates": extender and not options["certManager.enabled"],
        "scheduler": extender and options["scheduler.enabled"],
        "networkPolicy": options["networkPolicy.enabled"],
        "serviceAccount": options["serviceAccount.create"],
        "priorityClass": not options["priorityClass.name"],
        "admissionPolicies": moves and options["admissionPolicies.enabled"],
        "podMonitor": options["monitoring.podMonitor"],
        "alerts": options["monitoring.alerts"],
        "dashboard": options["monitoring.dashboard"],
        "crds": options["crds.install"],
        "keptCrds": options["crds.keep"],
    }
    return {name for name, is_on in conditions.items() if is_on}


_EXTENDER = "and .Values.extender.enabled (not .Values.dryRun)"
_SERVICE_NAMES = [
    f'"{CONTROLLER}"',
    *(f'(printf "{CONTROLLER}.%s{end}" .Release.Namespace)' for end in SERVICE_ENDS),
]


def image_expression(path: str, program: str, tag: str) -> str:
    """The image that some values name, in a template; without one, rendering fails."""
    missing = missing_image(f"{path}.repository", program)
    values = f'"image" .Values.{path} "tag" {tag} "missing" "{missing}"'
    return f'include "rescheduler.image" (dict {values}) | quote'


_AGGREGATION = " ".join(f'"{key}" "{value}"' for key, value in AGGREGATION.items())


def component_expressions(component: str, prefix: str) -> dict[str, str]:
    """What `resolved_options` has for a component, in a template."""
    name = labels(component)[COMPONENT_LABEL]
    own = f'(include "rescheduler.selector" "{name}" | fromYaml)'
    of_release = f'(include "rescheduler.labels" (list . "{name}") | fromYaml)'
    preferred = f'(include "rescheduler.affinity" "{name}" | fromYaml)'
    return {
        f"{component}.labels": of_release,
        f"{component}.aggregatedLabels": f"merge {of_release} (dict {_AGGREGATION})",
        f"{component}.deploymentLabels": f"merge {of_release} .Values.deploymentLabels",
        f"{component}.podLabels": f"merge {own} .Values.podLabels",
        f"{component}.affinity": f".Values.{prefix}affinity | default {preferred}",
    }


_COMPONENT_EXPRESSIONS = {
    name: expression
    for component, prefix in COMPONENTS.items()
    for name, expression in component_expressions(component, prefix).items()
}
_SCRAPE_PAIRS = " ".join(f'"{key}" "{value}"' for key, value in SCRAPE_ANNOTATIONS.items())
_SCRAPE = f"(ternary (dict {_SCRAPE_PAIRS}) (dict) .Values.monitoring.annotations)"
# What holds double braces is no template: it is read from files of the chart.
CHART_RULES, CHART_DASHBOARD = "files/rules.yaml", "files/dashboard.json"

EXPRESSIONS = Expressions(
    values={
        **{option.path: option.expression for option in OPTIONS},
        "image": image_expression("image", CONTROLLER, ".Chart.AppVersion"),
        "schedulerImage": image_expression(
            "scheduler.image",
            KUBE_SCHEDULER,
            # Without what vendors add: v1.33.5-gke.1080000, v1.33.5+k3s1.
            '(regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version)',
        ),
        "namespace": ".Release.Namespace",
        "ownRequests": f'printf "{OWN_REQUESTS.format("%s")}" .Values.serviceAccount.name | quote',
        "closedNamespaces": f"append (.Values.policy.excludedNamespaces | default list) "
        f'"{NODE_LEASES}"',
        "serviceNames": f"list {' '.join(_SERVICE_NAMES)}",
        "certificateKey": f'printf "%s/{CONTROLLER}" .Release.Namespace',
        "readinessPort": f'ternary "{SERVING}" "{MONITORING}" ({_EXTENDER})',
        "readinessScheme": f'ternary "HTTPS" "HTTP" ({_EXTENDER})',
        **_COMPONENT_EXPRESSIONS,
        f"{CONTROLLER}.podAnnotations": f"merge (dict) .Values.podAnnotations {_SCRAPE}",
        "priorityClassName": ".Values.priorityClass.name | default "
        f'(printf "{CONTROLLER}-%d" (int64 .Values.priorityClass.value))',
        "monitoringLabels": f"merge {_COMPONENT_EXPRESSIONS[f'{CONTROLLER}.labels']} "
        ".Values.monitoring.labels",
        "alertRules": f'.Files.Get "{CHART_RULES}" | fromYaml',
        "dashboard": f'.Files.Get "{CHART_DASHBOARD}" | toJson',
        "apiServerPorts": 'include "rescheduler.apiServerPorts" . | fromYamlArray',
        "apiServerPeers": 'include "rescheduler.apiServerPeers" . | fromYamlArray',
    },
    switches={
        "moves": "not .Values.dryRun",
        "dryRun": ".Values.dryRun",
        "extender": _EXTENDER,
        "certManager": f"and .Values.certManager.enabled ({_EXTENDER})",
        "ownCertificates": f"and (not .Values.certManager.enabled) ({_EXTENDER})",
        "scheduler": f"and .Values.scheduler.enabled ({_EXTENDER})",
        "networkPolicy": ".Values.networkPolicy.enabled",
        "serviceAccount": ".Values.serviceAccount.create",
        "priorityClass": "not .Values.priorityClass.name",
        "admissionPolicies": "and .Values.admissionPolicies.enabled (not .Values.dryRun)",
        "podMonitor": ".Values.monitoring.podMonitor",
        "alerts": ".Values.monitoring.alerts",
        "dashboard": ".Values.monitoring.dashboard",
        "crds": ".Values.crds.install",
        "keptCrds": ".Values.crds.keep",
    },
    structured=frozenset(
        {
            "alertRules",
            "apiServerPorts",
            "apiServerPeers",
            "closedNamespaces",
            "monitoringLabels",
            f"{CONTROLLER}.podAnnotations",
            *_COMPONENT_EXPRESSIONS,
            "serviceNames",
            *(option.path for option in OPTIONS if option.is_structured),
        }
    ),
)
"""How the chart's templates name options and switches."""


def nested(paths: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted paths as one tree."""
    tree: dict[str, Any] = {}
    for path, value in paths.items():
        *parents, name = path.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return tree


def sections() -> Iterator[list[InstallOption]]:
    """The options that have the first part of their paths in common."""
    by_section: dict[str, list[InstallOption]] = {}
    for option in OPTIONS:
        by_section.setdefault(option.path.partition(".")[0], []).append(option)
    yield from by_section.values()
