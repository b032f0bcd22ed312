{{- /*
The chart is config/ with switches: what it installs is read from the files there, and changed where a value says so. So the manifests that
"kubectl apply -k" applies and those of the chart are the same by construction.
*/ -}}

{{- /* nephele.served: "true" where the controller computes policies and serves them; empty beside an Antrea Controller. */ -}}
{{- define "nephele.served" -}}
{{- if not .Values.antrea.enabled }}true{{ end }}
{{- end }}

{{- /* nephele.namespace is where the Pod is: that of the release, unless the values say another. */ -}}
{{- define "nephele.namespace" -}}
{{- default .Release.Namespace .Values.namespace }}
{{- end }}

{{- /* nephele.account is the ServiceAccount of the controller. */ -}}
{{- define "nephele.account" -}}
{{- default "nephele-controller" .Values.serviceAccount.name }}
{{- end }}

{{- /* nephele.labels are those of every object, as JSON. */ -}}
{{- define "nephele.labels" -}}
{{- dict "app.kubernetes.io/name" "nephele" "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/version" .Chart.AppVersion "helm.sh/chart" (printf "%s-%s" .Chart.Name (replace "+" "_" .Chart.Version)) | toJson }}
{{- end }}

{{- /* nephele.label gives the labels of every object to one (.o) of a file, which has its name. */ -}}
{{- define "nephele.label" -}}
{{- $_ := set .o.metadata "labels" (merge (get .o.metadata "labels" | default dict) (omit (include "nephele.labels" .root | fromJson) "app.kubernetes.io/name")) }}
{{- end }}

{{- /* nephele.checked refuses what does not go together. */ -}}
{{- define "nephele.checked" -}}
{{- if and .Values.antrea.enabled .Values.noClouds }}{{ fail "antrea.enabled and noClouds leave nothing to do: set one of them" }}{{ end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.name: the account that exists already has to be named" }}
{{- end }}
{{- if and .Values.sharedAccounts.enabled (ne (include "nephele.namespace" .) "kube-system") }}
{{- fail "sharedAccounts.enabled: replicas that share accounts reach one another in kube-system: install with -n kube-system" }}
{{- end }}
{{- if and .Values.sharedAccounts.enabled (or .Values.antrea.enabled .Values.noClouds) }}
{{- fail "sharedAccounts.enabled: accounts are shared out by replicas that serve policies and work on clouds, so not with antrea.enabled or noClouds" }}
{{- end }}
{{- if and .Values.antrea.kubeconfigSecret (not .Values.antrea.enabled) }}{{ fail "antrea.kubeconfigSecret needs antrea.enabled" }}{{ end }}
{{- end }}

{{- /* nephele.image is the image, by digest if there is one. */ -}}
{{- define "nephele.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end -}}
{{- end }}

{{- /* nephele.kept is the given rules (.rules) without those that the values (.root) make needless, as {"rules": [...]}. */ -}}
{{- define "nephele.kept" -}}
{{- $root := .root }}
{{- $kept := list }}
{{- range $rule := .rules }}
{{- $groups := get $rule "apiGroups" | default list }}
{{- $resources := get $rule "resources" | default list }}
{{- $clouds := or (has "crd.cloud.antrea.io" $groups) (has "secrets" $resources) (has "nephele-accounts" (get $rule "resourceNames" | default list)) }}
{{- $registers := or (has "apiregistration.k8s.io" $groups) (has "mutatingwebhookconfigurations" $resources)
  (has "validatingwebhookconfigurations" $resources) }}
{{- $computes := or $registers (has "nephele.io" $groups) (has "antreaagentinfos" $resources) (has "antreacontrollerinfos" $resources)
  (has "networking.k8s.io" $groups) (has "policy.networking.k8s.io" $groups) (has "pods" $resources) (has "tiers" $resources) }}
{{- if not (or (and $clouds $root.Values.noClouds) (and $computes $root.Values.antrea.enabled)) }}
{{- $kept = append $kept $rule }}
{{- end }}
{{- end }}
{{- dict "rules" $kept | toYaml }}
{{- end }}

{{- /* nephele.manifests writes the objects of a file (.file) as the values of the release (.root) want them. */ -}}
{{- define "nephele.manifests" -}}
{{- $root := .root }}
{{- $text := required (printf "%s is not in the chart" .file) ($root.Files.Get .file) }}
{{- range $document := regexSplit "(?m)^---[ \\t]*$" $text -1 }}
{{- $o := fromYaml $document }}
{{- if hasKey $o "Error" }}{{ fail (printf "%s: %s" $.file $o.Error) }}{{ end }}
{{- if get $o "kind" }}
{{- if and (get $o "rules") (hasPrefix "nephele-controller" $o.metadata.name) }}
{{- $_ := set $o "rules" (get (include "nephele.kept" (dict "root" $root "rules" $o.rules) | fromYaml) "rules") }}
{{- end }}
{{- range $subject := get $o "subjects" | default list }}
{{- if has $subject.name (list "nephele-controller" "nephele-node-agent") }}{{ $_ := set $subject "namespace" (include "nephele.namespace" $root) }}{{ end }}
{{- if eq $subject.name "nephele-controller" }}{{ $_ := set $subject "name" (include "nephele.account" $root) }}{{ end }}
{{- end }}
{{- if and (hasKey $o "webhooks") (not $root.Values.webhooks.enabled) }}{{ $_ := unset $o "webhooks" }}{{ end }}
{{- if eq $o.kind "Secret" }}
{{- /* Without their key nobody can give back what VMs had before, and with another authority all hosts enroll again: they outlive the release. */ -}}
{{- $_ := set $o.metadata "annotations" (dict "helm.sh/resource-policy" "keep") }}
{{- end }}
{{- if and (eq $o.kind "ServiceAccount") (eq $o.metadata.name "nephele-controller") }}
{{- $_ := set $o.metadata "namespace" (include "nephele.namespace" $root) }}
{{- $_ := set $o.metadata "name" (include "nephele.account" $root) }}
{{- with $root.Values.serviceAccount.annotations }}{{ $_ := set $o.metadata "annotations" . }}{{ end }}
{{- end }}
{{- if and (eq $o.kind "ServiceAccount") (eq $o.metadata.name "nephele-node-agent") }}{{ $_ := set $o.metadata "namespace" (include "nephele.namespace" $root) }}{{ end }}
{{- include "nephele.label" (dict "root" $root "o" $o) }}
{{- if ne (include "nephele.namespace" $root) "kube-system" }}{{ include "nephele.moved" (dict "root" $root "o" $o) }}{{ end }}
{{- if not (and (eq $o.kind "ServiceAccount") (eq $o.metadata.name (include "nephele.account" $root)) (not $root.Values.serviceAccount.create)) }}
---
{{ toYaml $o | replace "system:serviceaccount:kube-system:nephele-controller" (printf "system:serviceaccount:%s:%s" (include "nephele.namespace" $root) (include "nephele.account" $root)) }}
{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* nephele.moved makes an object (.o) lead to the Service antrea in another namespace than kube-system, where it is itself then. */ -}}
{{- define "nephele.moved" -}}
{{- $ns := include "nephele.namespace" .root }}
{{- if and (eq .o.kind "Service") (eq .o.metadata.name "antrea") }}{{ $_ := set .o.metadata "namespace" $ns }}{{ end }}
{{- range $hook := get .o "webhooks" | default list }}{{ $_ := set $hook.clientConfig.service "namespace" $ns }}{{ end }}
{{- if and (eq .o.kind "APIService") (get .o.spec "service") }}{{ $_ := set .o.spec.service "namespace" $ns }}{{ end }}
{{- end }}
