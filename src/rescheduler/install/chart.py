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

HELMIGNORE = "*.orig\n*.bak\n*.tmp\n"


def chart_files() -> dict[str, str]:
    """The content of every file of the chart, by its path in it."""
    comment = f"# {GENERATED}\n"
    return {
        "Chart.yaml": comment + dumped(CHART),
        "values.yaml": comment + values_text(),
        "values.schema.json": json.dumps(values_schema(), indent=2) + "\n",
        ".helmignore": HELMIGNORE,
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
