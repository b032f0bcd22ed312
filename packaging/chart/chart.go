// Package chart renders the charts of this repository with helm's own code, without a cluster.
//
// It owns what a combination of switches is. It promises to render as "helm install" does: with the
// values checked against the schema, hooks included. It is safe for concurrent use.
//
// # Why the charts read the manifests
//
// config/ has the manifests for kustomize, with tests that compare rights with their use; a second
// copy of rights would drift apart. So links below charts/nephele/files lead to config/, and the
// templates read those files, leave out and replace what values say, and write the objects. They
// work on objects, so no value is pasted into YAML. Tests compare the charts with what kustomize
// builds, field by field, and check every combination of switches against kube-apiserver. A
// checkout without links cannot be installed from; "make release" packs the charts.
//
// Manifests generated from the chart would have rights in templates that only helm reads. Copies by
// "make generate" would be a second place in every review. Definitions in the chart's crds/ are
// never upgraded by helm.
package chart

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// kubernetes is the version that charts are rendered for.
const kubernetes = "v1.36.0"

// Object is one manifest.
type Object map[string]any

func (o Object) text(path ...string) string {
	var at any = map[string]any(o)
	for _, p := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return ""
		}
		at = m[p]
	}
	s, _ := at.(string)
	return s
}

// Kind is the kind of the object.
func (o Object) Kind() string { return o.text("kind") }

// APIVersion is its group and version.
func (o Object) APIVersion() string { return o.text("apiVersion") }

// Name is its name.
func (o Object) Name() string { return o.text("metadata", "name") }

// Namespace is its namespace; empty if it has none.
func (o Object) Namespace() string { return o.text("metadata", "namespace") }

// Hook says when helm runs the object instead of installing it; empty for all others.
func (o Object) Hook() string { return o.text("metadata", "annotations", "helm.sh/hook") }

// String names the object.
func (o Object) String() string { return o.Kind() + " " + o.Namespace() + "/" + o.Name() }

// Chart is a chart that was read.
type Chart struct {
	chart *chart.Chart
	// parsed are the objects of documents that were rendered before: most are the same whatever the
	// values are, and to read them takes longer than to render them.
	parsed sync.Map
}

// Load reads a chart from its directory.
func Load(dir string) (*Chart, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read chart %s: %w", dir, err)
	}
	return &Chart{chart: c}, nil
}

// Render returns the objects of a release in kube-system, in the order of their templates. They are
// not to be changed.
func (c *Chart) Render(values map[string]any) ([]Object, error) {
	return c.RenderIn("kube-system", values)
}

// RenderIn is Render of a release in a namespace.
func (c *Chart) RenderIn(namespace string, values map[string]any) ([]Object, error) {
	release := chartutil.ReleaseOptions{Name: "nephele", Namespace: namespace, Revision: 1, IsInstall: true}
	capabilities := chartutil.DefaultCapabilities.Copy()
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		return nil, fmt.Errorf("version of Kubernetes: %w", err)
	}
	capabilities.KubeVersion = *version
	all, err := chartutil.ToRenderValues(c.chart, values, release, capabilities)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	files, err := engine.Engine{Strict: true}.Render(c.chart, all)
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	var out []Object
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for document := range strings.SplitSeq("\n"+files[name], "\n---") {
			o, err := c.parse(document)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if len(o) > 0 {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// parse reads a document.
func (c *Chart) parse(document string) (Object, error) {
	if o, known := c.parsed.Load(document); known {
		return o.(Object), nil
	}
	var o Object
	if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
		return nil, err
	}
	c.parsed.Store(document, o)
	return o, nil
}

// Switch is one thing that the values decide, with every state that is worth telling apart. A state
// is what is set; the first one is the default.
type Switch struct {
	Name string
	// Apart says that what it adds or leaves out is objects of its own, which no other switch that
	// is apart has a say in.
	Apart  bool
	States []map[string]any
}

// Switches returns the switches of the chart nephele.
func Switches() []Switch {
	on := func(key string, more map[string]any) map[string]any {
		v := map[string]any{"enabled": true}
		maps.Copy(v, more)
		return map[string]any{key: v}
	}
	return []Switch{
		{"mode", false, []map[string]any{
			nil,
			{"noClouds": true},
			{"sharedAccounts": map[string]any{"enabled": true}, "replicas": 3},
			{"antrea": map[string]any{"enabled": true}},
			{"antrea": map[string]any{"enabled": true, "kubeconfigSecret": "antrea"}, "namespace": "nephele"},
		}},
		{"webhooks", false, []map[string]any{nil, {"webhooks": map[string]any{"enabled": false}}}},
		{"tls", false, []map[string]any{
			nil,
			{"tls": map[string]any{"mode": "certManager"}},
			{"tls": map[string]any{"mode": "certManager", "certManager": map[string]any{"issuerRef": map[string]any{"name": "corporate", "kind": "ClusterIssuer"}}}},
		}},
		{"secrets", false, []map[string]any{nil, {"secrets": map[string]any{"namespaces": []any{"cloud-accounts"}}}}},
		{"pod", false, []map[string]any{nil, {
			"replicas": 2, "image": map[string]any{"repository": "registry.example/nephele", "digest": "sha256:" + strings.Repeat("0a", 32), "pullSecrets": []any{"registry"}},
			"resources":      map[string]any{"requests": map[string]any{"memory": "512Mi"}, "limits": map[string]any{"memory": "2Gi"}},
			"serviceAccount": map[string]any{"annotations": map[string]any{"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/nephele"}},
			"podLabels":      map[string]any{"azure.workload.identity/use": "true"}, "podAnnotations": map[string]any{"example.com/a": "b"},
			"ambientIdentity": map[string]any{"namespaces": []any{"cloud-accounts"}}, "allowedEndpoints": []any{"10.0.0.0/8"},
			"nodeSelector": map[string]any{"kubernetes.io/os": "linux"}, "tolerations": []any{map[string]any{"operator": "Exists"}}, "extraArgs": []any{"--verbose"},
		}}},
		{"proxy", false, []map[string]any{nil, {"proxy": map[string]any{"https": "http://proxy.example:3128", "noProxy": "10.0.0.0/8"}, "ca": map[string]any{"configMap": "authorities"},
			"traces": map[string]any{"endpoint": "http://collector.observability:4317"}}}},
		{"podDisruptionBudget", true, []map[string]any{nil, on("podDisruptionBudget", nil)}},
		{"networkPolicy", true, []map[string]any{nil, {"networkPolicy": map[string]any{"enabled": false}}}},
		{"serviceMonitor", true, []map[string]any{nil, on("serviceMonitor", map[string]any{"serviceAccount": map[string]any{"namespace": "monitoring", "name": "prometheus"}})}},
		{"dashboards", true, []map[string]any{nil, on("dashboards", nil)}},
		{"alerts", true, []map[string]any{nil, on("alerts", nil)}},
		{"nodeAgents", true, []map[string]any{nil, on("nodeAgents", map[string]any{"podCIDRs": []any{"10.244.0.0/16", "fd00:10::/48"}, "keepEstablished": true})}},
		{"console", true, []map[string]any{nil, on("console", map[string]any{
			"url": "https://nephele.example.com", "allowEdit": true, "tls": map[string]any{"secretName": "console-tls"},
			"oidc": map[string]any{"issuer": "https://login.example.com", "clientID": "nephele", "clientSecret": map[string]any{"name": "console-oidc"},
				"scopes": []any{"groups", "offline_access"}, "caConfigMap": "corporate"},
			"tokenLogin": false, "networkPolicy": map[string]any{"fromAddresses": []any{"10.0.0.0/8"}},
			"ingress": map[string]any{"enabled": true, "className": "nginx", "tlsSecretName": "console-public",
				"annotations": map[string]any{"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"}},
		})}},
		{"releaseOnDelete", true, []map[string]any{nil, {"releaseOnDelete": map[string]any{"enabled": false}}}},
	}
}

// Combinations calls each, several at a time, with every combination of the states of switches and
// its name. Switches that are apart are all in their first state, or all in their last. It returns
// the first error.
func Combinations(switches []Switch, each func(name string, values map[string]any) error) error {
	var together []Switch
	apart := Switch{Name: "apart", States: []map[string]any{nil, {}}}
	for _, s := range switches {
		if s.Apart {
			maps.Copy(apart.States[1], s.States[len(s.States)-1])
		} else {
			together = append(together, s)
		}
	}
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	combine(append(together, apart), "", map[string]any{}, func(name string, values map[string]any) {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if failed.Load() != nil {
				return
			}
			if err := each(name, values); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	})
	all.Wait()
	if first := failed.Load(); first != nil {
		return *first
	}
	return nil
}

func combine(left []Switch, name string, values map[string]any, each func(string, map[string]any)) {
	if len(left) == 0 {
		each(strings.TrimSpace(name), values)
		return
	}
	for i, state := range left[0].States {
		with := maps.Clone(values)
		maps.Copy(with, state)
		label := name
		if i > 0 {
			label = fmt.Sprintf("%s %s=%d", name, left[0].Name, i)
		}
		combine(left[1:], label, with, each)
	}
}
