"""The files of the Helm chart, from the same trees as `deploy/`."""

import json
from typing import Any

from rescheduler.install.manifests import NAMESPACE_FILE, files
from rescheduler.install.monitoring.monitoring_objects import (
    DASHBOARD_FILE,
    RULES_FILE,
    plain_files,
)
from rescheduler.install.options import (
    CHART_DASHBOARD,
    CHART_RULES,
    EXPRESSIONS,
    OPTIONS,
    PROJECT_VERSION,
    InstallOption,
    nested,
    sections,
)
from rescheduler.install.tree import Comment, Tree, conditional_items, dumped, written

GENERATED = "Written by `make manifests` from src/rescheduler/install. Change it there."

CHART = {
    "apiVersion": "v2",
    "name": "rescheduler",
    "description": "Moves running Kubernetes pods to better nodes",
    "type": "application",
    "version": PROJECT_VERSION,
    "appVersion": PROJECT_VERSION,
    "kubeVersion": ">=1.27.0-0",
    "keywords": ["scheduling", "rescheduler", "descheduler"],
}

HELPERS = """\
{{- /* An image: of its repository, and a digest or a tag. */ -}}
{{- define "rescheduler.image" -}}
{{- $repository := required .missing .image.repository -}}
{{- if .image.digest -}}
{{ $repository }}@{{ .image.digest }}
{{- else -}}
{{ $repository }}:{{ .image.tag | default .tag }}
{{- end }}
{{- end }}

{{- /* The labels by which the pods of a component are selected. */ -}}
{{- define "rescheduler.selector" -}}
app.kubernetes.io/name: rescheduler
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- /* The labels of an object of a component, with those of the release. */ -}}
{{- define "rescheduler.labels" -}}
{{- $root := first . -}}
{{ include "rescheduler.selector" (last .) }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* The pods of a component prefer different nodes; a cluster may have a single one. */ -}}
{{- define "rescheduler.affinity" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels: {{- include "rescheduler.selector" . | nindent 10 }}
{{- end }}

{{- /* The ports of the API server as a NetworkPolicy names them. */ -}}
{{- define "rescheduler.apiServerPorts" -}}
{{- range .Values.networkPolicy.apiServerPorts }}
- port: {{ . }}
  protocol: TCP
{{- end }}
{{- end }}

{{- /* The addresses of the API server as a NetworkPolicy names them. */ -}}
{{- define "rescheduler.apiServerPeers" -}}
{{- range .Values.networkPolicy.apiServerCidrs }}
- ipBlock:
    cidr: {{ . }}
{{- end }}
{{- end }}
"""

NOTES = """\
rescheduler {{ .Chart.AppVersion }} is installed in namespace {{ .Release.Namespace }}.
{{ if .Values.dryRun }}
It only plans (dryRun: true), and has no right to change anything. See what it would do:

  kubectl -n {{ .Release.Namespace }} logs deployment/rescheduler --follow
{{ else }}
Look first at what it does and why:

  kubectl -n {{ .Release.Namespace }} logs deployment/rescheduler --follow
  kubectl get migrations --all-namespaces --watch
  kubectl get moves

To keep a pod where it is, label it scheduler.alpha.kubernetes.io/rescheduling=disabled.
To begin no more moves, and finish those under way:

  helm upgrade {{ .Release.Name }} CHART -n {{ .Release.Namespace }} \\
    --reuse-values --set policy.maxReschedulePods=0
{{- if and .Values.scheduler.enabled .Values.extender.enabled }}

Pods with schedulerName: rescheduler-scheduler are placed with its help from the start.
{{- end }}
{{ end }}"""

OF_PARENT_CHARTS: dict[str, Any] = {
    "global": {"type": "object", "description": "Values of a chart that has this one in it."},
    "enabled": {
        "type": "boolean",
        "description": "Only for a chart that has this one in it, with `condition:` on it.",
    },
}
"""What Helm passes to a chart that is a dependency of another."""

README = """\
# rescheduler

Moves running Kubernetes pods to better nodes. Where the workload allows it, the new pod is Ready
before the old one is deleted.

    helm install rescheduler . --namespace rescheduler --create-namespace \\
      --set image.repository=YOUR-REGISTRY/rescheduler

The image must be one that your nodes can pull; there is no default. Whoever installs it needs the
rights of `cluster-admin`. Begin with `dryRun: true`: it then plans and logs, and has no right to
change anything. There can be one release in a cluster, because its roles are the cluster's.

As a dependency, it takes these values below its name, and `enabled` for `condition`.

| value | default | what it does |
| --- | --- | --- |
"""

HELMIGNORE = "*.orig\n*.bak\n*.tmp\n"


def chart_files() -> dict[str, str]:
    """The content of every file of the chart, by its path in it."""
    comment = f"# {GENERATED}\n"
    return {
        "Chart.yaml": comment + dumped(CHART),
        "values.yaml": comment + values_text(),
        "values.schema.json": json.dumps(values_schema(), indent=2) + "\n",
        ".helmignore": HELMIGNORE,
        "README.md": readme_text(),
        CHART_RULES: comment + plain_files()[RULES_FILE],
        CHART_DASHBOARD: plain_files()[DASHBOARD_FILE],
        "templates/NOTES.txt": NOTES,
        "templates/_helpers.tpl": HELPERS,
        **{
            f"templates/{name}": f"{{{{- /* {GENERATED} */ -}}}}\n{template(objects)}"
            for name, objects in files().items()
            if name != NAMESPACE_FILE
        },
    }


def template(objects: list[Tree]) -> str:
    """The template of one file: documents, some of them behind switches."""
    parts = []
    for each in objects:
        conditional = conditional_items(each)
        if conditional is None:
            parts.append(f"---\n{written(each, EXPRESSIONS)}")
            continue
        when, inner = conditional
        condition = EXPRESSIONS.switches[when.switch]
        parts.append(f"{{{{- if {condition} }}}}\n{template(inner)}{{{{- end }}}}\n")
    return "".join(parts)


def values_text() -> str:
    """`values.yaml`: every option with its default, below what it does."""
    blocks = []
    for options in sections():
        fields: dict[Any, Tree] = {}
        for option in options:
            *parents, name = option.path.split(".")
            place = fields
            for parent in parents:
                place = place.setdefault(parent, {})
            place[Comment(option.description)] = None
            place[name] = option.default
        blocks.append(dumped(fields))
    return "\n".join(["", *blocks])


def readme_text() -> str:
    """The chart's own description, with all values."""
    rows = (
        f"| `{option.path}` | {default_in_words(option)} | {option.description} |\n"
        for option in OPTIONS
    )
    return "".join((f"<!-- {GENERATED} -->\n\n", README, *rows))


def default_in_words(option: InstallOption) -> str:
    """The default of an option; mappings are shown in `values.yaml`."""
    is_long = isinstance(option.default, dict) and option.default
    return "see `values.yaml`" if is_long else f"`{json.dumps(option.default)}`"


def values_schema() -> dict[str, Any]:
    """The schema by which Helm checks values: an option that does not exist is an error."""
    schema = schema_of(nested({option.path: option for option in OPTIONS}))
    schema["properties"] |= OF_PARENT_CHARTS
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}


def schema_of(node: Any) -> dict[str, Any]:
    """The schema of an option, or of a group of options."""
    if isinstance(node, InstallOption):
        return {**node.schema, "description": node.description}
    properties = {name: schema_of(inner) for name, inner in node.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}
