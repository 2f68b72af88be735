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
