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
