{{- define "relay.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Of a job of this release: (dict "root" $ "component" "prune"). A pod of another job is not the relay's. */ -}}
{{- define "relay.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "relay.labels" -}}
{{ include "relay.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end -}}

{{- define "relay.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "relay.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "relay.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "relay.podSecurity" -}}
automountServiceAccountToken: false
# A Service named console would set CONSOLE_PORT.
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "relay.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- /* Where the pods of the jobs may run; the relay's own spread is in its Deployment. */ -}}
{{- define "relay.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* The variables of a job beside its Secret: those of config that it needs, and extraEnv. */ -}}
{{- define "relay.jobEnv" -}}
{{- $config := .root.Values.config -}}
{{- $given := list -}}
{{- range .names }}{{- if get $config . }}{{- $given = append $given . }}{{- end }}{{- end }}
{{- if or $given .root.Values.extraEnv }}
env:
  {{- range $given }}
  - name: {{ . }}
    value: {{ get $config . | quote }}
  {{- end }}
  {{- with .root.Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /* What every container mounts: the CA, and extraVolumeMounts. Before them what it mounts of its own. */ -}}
{{- define "relay.mounts" -}}
{{- $mounts := .own | default list -}}
{{- if .root.Values.caSecret }}
{{- $mounts = append $mounts (dict "name" "ca" "mountPath" "/etc/openoutbox/ca" "readOnly" true) -}}
{{- end }}
{{- with concat $mounts .root.Values.extraVolumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "relay.volumes" -}}
{{- $volumes := .own | default list -}}
{{- if .root.Values.caSecret }}
{{- $volumes = append $volumes (dict "name" "ca" "secret" (dict "secretName" .root.Values.caSecret)) -}}
{{- end }}
{{- with concat $volumes .root.Values.extraVolumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* A table as SQL takes it: each of its names quoted. */ -}}
{{- define "relay.quotedTable" -}}
{{- $parts := list -}}
{{- range splitList "." (.Values.config.STORAGE_TABLE_NAME | default "openoutbox_events") }}
{{- $parts = append $parts (printf "\"%s\"" (replace "\"" "\"\"" .)) }}
{{- end }}
{{- join "." $parts -}}
{{- end -}}
