{{- /* Names, labels and what all pods have in common. */ -}}

{{- define "flowdrop.name" -}}
{{- if contains "flowdrop" .Release.Name }}{{ .Release.Name | trunc 30 | trimSuffix "-" }}{{ else }}{{ printf "%s-flowdrop" .Release.Name | trunc 30 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "flowdrop.selector" -}}
app.kubernetes.io/name: flowdrop
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "flowdrop.labels" -}}
{{ include "flowdrop.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "flowdrop.account" -}}
{{- .Values.serviceAccount.name | default (include "flowdrop.name" .) }}
{{- end }}

{{- define "flowdrop.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{- define "flowdrop.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
# Makes the pause process PID 1; it reaps orphaned processes.
shareProcessNamespace: true
terminationGracePeriodSeconds: 15
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "flowdrop.container" -}}
image: {{ include "flowdrop.image" . }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "flowdrop.worker-mounts" -}}
- { name: data, mountPath: /data }
- { name: jobs, mountPath: /data/jobs, readOnly: true }
- { name: secrets, mountPath: /run/secrets/flowdrop, readOnly: true }
- { name: tmp, mountPath: /tmp }
{{- end }}

{{- define "flowdrop.worker-volumes" -}}
- name: jobs
  configMap: { name: {{ .Values.existingJobsConfigMap | default (printf "%s-jobs" (include "flowdrop.name" .)) }} }
- name: secrets
  secret: { secretName: {{ .Values.existingSecret }}, defaultMode: 288 } # 0440
- name: tmp
  emptyDir: { sizeLimit: 2Gi }
{{- end }}

{{- define "flowdrop.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end }}

{{- /* Settings that are no secret, and secrets: docs/settings.md; a test compares them. FLOWDROP_KEY_NAME is a secret, too. */ -}}
{{- define "flowdrop.plain-settings" -}}
FLOWDROP_API_URL FLOWDROP_PORTAL_URL FLOWDROP_REQUESTS_PER_SECOND FLOWDROP_SNAPSHOTS_PER_SECOND FLOWDROP_STATE_DIR
FLOWDROP_MAX_RUNS FLOWDROP_MAIL_DOMAINS FLOWDROP_MAIL_RETRY_SECONDS FLOWDROP_OUTBOX_DIR FLOWDROP_MAIL_FROM
FLOWDROP_S3_PATH_STYLE FLOWDROP_QUERY_ENGINE_COLLECTION FLOWDROP_QUERY_ENGINE_CLUSTER
FLOWDROP_CALENDAR_FILE FLOWDROP_LOG_LEVEL FLOWDROP_LOG_FORMAT FLOWDROP_CLOCK FLOWDROP_RUN_ID FLOWDROP_RUN_HISTORY_DAYS
FLOWDROP_STATUS_ADDRESS FLOWDROP_PUBLIC_URL FLOWDROP_STATUS_ACTIONS
{{- end }}

{{- define "flowdrop.secret-settings" -}}
FLOWDROP_API_KEY FLOWDROP_PORTAL_KEY FLOWDROP_REDIS_URL FLOWDROP_SMTP_URL FLOWDROP_ALERT_WEBHOOK_URL
FLOWDROP_ALERT_WEBHOOK_SECRET FLOWDROP_EVENTS_URL FLOWDROP_EVENTS_SECRET FLOWDROP_CLICKHOUSE_URL
FLOWDROP_CLICKHOUSE_ADMIN_URL FLOWDROP_QUERY_ENGINE_URL FLOWDROP_CATALOG_TOKEN FLOWDROP_CATALOG_CREDENTIAL
FLOWDROP_STATUS_TOKEN
{{- end }}

{{- /* Refuses a secret as a value, and a name that flowdrop does not know. */ -}}
{{- define "flowdrop.check-setting" -}}
{{- $plain := splitList " " (include "flowdrop.plain-settings" . | replace "\n" " ") }}
{{- $secret := splitList " " (include "flowdrop.secret-settings" . | replace "\n" " ") }}
{{- $base := trimSuffix "_FILE" .key }}
{{- $isSecret := or (has $base $secret) (regexMatch "^FLOWDROP_KEY_[A-Z0-9_]+$" $base) }}
{{- if and $isSecret (eq $base .key) }}
{{- fail (printf "%s.%s: a secret cannot be a value, because Helm keeps values in the release's history; put it into the Secret and set %s_FILE to its file in /run/secrets/flowdrop" .path .key .key) }}
{{- else if regexMatch "^AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN)(_FILE)?$" .key }}
{{- fail (printf "%s.%s: give the service account a role for the bucket (serviceAccount.annotations), or put a credentials file into the Secret and set AWS_SHARED_CREDENTIALS_FILE: /run/secrets/flowdrop/aws-credentials" .path .key) }}
{{- else if and (hasPrefix "FLOWDROP_" .key) (not $isSecret) (not (has .key $plain)) }}
{{- fail (printf "%s.%s: flowdrop has no such setting; see docs/settings.md" .path .key) }}
{{- else if and (not (hasPrefix "FLOWDROP_" .key)) (regexMatch "(KEY|TOKEN|SECRET|PASSWORD)$" .key) }}
{{- fail (printf "%s.%s: a secret cannot be a value, because Helm keeps values in the release's history; put it into the Secret" .path .key) }}
{{- end }}
{{- end }}
