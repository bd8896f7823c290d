{{/* A file that kustomize uses too, with the release's namespace: (dict "root" $ "file" "base/x.yaml"). */}}
{{- define "kaisched.shared" -}}
{{- $text := .root.Files.Get (printf "files/%s" .file) -}}
{{- if not $text -}}{{- fail (printf "the chart lacks files/%s" .file) -}}{{- end -}}
{{- $space := .root.Release.Namespace -}}
{{- $text = $text | replace "namespace: kaisched" (printf "namespace: %s" $space) -}}
{{- $text | replace "serviceaccount:kaisched:" (printf "serviceaccount:%s:" $space) }}
{{ end -}}
