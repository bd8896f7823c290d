{{/* A file that kustomize uses too, with the release's namespace: (dict "root" $ "file" "base/x.yaml"). */}}
{{- define "kaisched.shared" -}}
{{- $text := .root.Files.Get (printf "files/%s" .file) -}}
{{- if not $text -}}{{- fail (printf "the chart lacks files/%s" .file) -}}{{- end -}}
{{- $space := .root.Release.Namespace -}}
{{- $text = $text | replace "namespace: kaisched" (printf "namespace: %s" $space) -}}
{{- $text | replace "serviceaccount:kaisched:" (printf "serviceaccount:%s:" $space) }}
{{ end -}}

{{/* Whether an object of the Prometheus operator is wanted: (dict "root" $ "create" VALUE "kind" KIND). */}}
{{- define "kaisched.served" -}}
{{- $isServed := .root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind) -}}
{{- $isServed = or $isServed (.root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1") -}}
{{- if or (eq (toString .create) "true") (and (eq (toString .create) "auto") $isServed) -}}true{{- end -}}
{{- end -}}

{{/* The names of all shards, by name and by label, as a JSON list. */}}
{{- define "kaisched.shards" -}}
{{- $names := .Values.shards -}}
{{- if .Values.shardLabels -}}
{{- range (lookup "kai.scheduler/v1" "SchedulingShard" "" "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $has := true -}}
{{- range $key, $value := $.Values.shardLabels -}}
{{- if ne (get $labels $key) $value -}}{{- $has = false -}}{{- end -}}
{{- end -}}
{{- if $has -}}{{- $names = append $names .metadata.name -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $names | uniq | toJson -}}
{{- end -}}
