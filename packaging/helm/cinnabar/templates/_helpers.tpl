{{- define "cinnabar.name" -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- end }}
{{- define "cinnabar.labels" -}}
app.kubernetes.io/name: cinnabar
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "cinnabar.selector" -}}
app.kubernetes.io/name: cinnabar
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}
{{- define "cinnabar.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}
{{/* How many pods there are. */}}
{{- define "cinnabar.pods" -}}
{{- if eq .Values.mode "standalone" }}1
{{- else if eq .Values.mode "replicated" }}{{ .Values.replicas }}
{{- else }}{{ mul .Values.cluster.primaries (add 1 .Values.cluster.replicasPerPrimary) }}
{{- end }}
{{- end }}
{{/* Environment that the scripts read. */}}
{{- define "cinnabar.environment" -}}
- {name: MODE, value: {{ .Values.mode | quote }}}
- {name: SET, value: {{ include "cinnabar.name" . | quote }}}
- {name: DOMAIN, value: "{{ include "cinnabar.name" . }}-pods.{{ .Release.Namespace }}.svc"}
- {name: PODS, value: {{ include "cinnabar.pods" . | quote }}}
- {name: NODE_TIMEOUT, value: {{ .Values.cluster.nodeTimeout | quote }}}
- {name: REPLICAS_PER_PRIMARY, value: {{ .Values.cluster.replicasPerPrimary | quote }}}
- {name: DOWN_AFTER, value: {{ .Values.downAfterMilliseconds | quote }}}
- {name: ADMIN_PORT, value: {{ .Values.adminPort | quote }}}
- name: POD
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- with .Values.auth.existingSecret }}
- name: PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . | quote }}, key: {{ $.Values.auth.key | quote }}}}
- name: REDISCLI_AUTH
  valueFrom: {secretKeyRef: {name: {{ . | quote }}, key: {{ $.Values.auth.key | quote }}}}
{{- end }}
{{- end }}
