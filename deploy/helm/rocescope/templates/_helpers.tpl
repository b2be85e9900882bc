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
