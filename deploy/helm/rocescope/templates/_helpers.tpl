{{- define "rocescope.labels" -}}
app.kubernetes.io/name: rocescope
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "rocescope.selector" -}}
app.kubernetes.io/name: rocescope
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rocescope.name" -}}
{{- printf "%s-rocescope" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* ADDRESS:PORT; without an address that of the node, which kubelet puts in. */ -}}
{{- define "rocescope.listen" -}}
{{- if contains ":" .Values.listen }}[{{ .Values.listen }}]{{ else }}{{ .Values.listen | default "$(NODE_ADDRESS)" }}{{ end }}:{{ .Values.port }}
{{- end }}

{{- /* The address that kubelet asks, where that of the pod, which is the node's, is not listened on. */ -}}
{{- define "rocescope.probed" -}}
{{- if not (has .Values.listen (list "" "0.0.0.0" "::")) }}{{ .Values.listen }}{{ end }}
{{- end }}
