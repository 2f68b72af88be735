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
