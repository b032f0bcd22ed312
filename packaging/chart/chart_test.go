package chart

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	root        = "../.."
	controller  = root + "/charts/nephele"
	definitions = root + "/charts/nephele-crds"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // helm tells of the links by which the charts hold the manifests
	os.Exit(m.Run())
}

func load(t *testing.T, dir string) *Chart {
	t.Helper()
	c, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func render(t *testing.T, dir, values string) []Object {
	t.Helper()
	var v map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &v); err != nil {
		t.Fatal(err)
	}
	out, err := load(t, dir).Render(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLint: helm's own linter finds nothing to say, with the default values and with all others.
func TestLint(t *testing.T) {
	all := map[string]any{}
	for _, s := range Switches() {
		if s.Name != "mode" {
			maps.Copy(all, s.States[len(s.States)-1])
		}
	}
	for _, values := range []map[string]any{nil, all, {"noClouds": true}, {"antrea": map[string]any{"enabled": true}}} {
		for _, m := range lint.All(controller, values, "kube-system", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("nephele: %v", m)
			}
		}
	}
	for _, m := range lint.All(definitions, nil, "kube-system", true).Messages {
		if m.Severity > support.InfoSev {
			t.Errorf("nephele-crds: %v", m)
		}
	}
}

// kustomized is what "kubectl apply -k" applies.
func kustomized(t *testing.T, dir string) map[string]Object {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, dir))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Object{}
	for _, r := range all.Resources() {
		var o Object
		if err := yaml.UnmarshalStrict([]byte(r.MustYaml()), &o); err != nil {
			t.Fatal(err)
		}
		out[o.String()] = o
	}
	return out
}

// withoutHelm is an object without the annotations that are for helm.
func withoutHelm(t *testing.T, o Object) Object {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out Object
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	meta := out["metadata"].(map[string]any)
	if labels, ok := meta["labels"].(map[string]any); ok {
		for _, key := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/version", "helm.sh/chart"} {
			delete(labels, key)
		}
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		delete(annotations, "helm.sh/resource-policy")
		if len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	return out
}

// TestChartsAreTheManifests: both charts together install what config/ installs, object by object
// and field by field; and with the Secrets of some namespaces only what the overlay installs.
func TestChartsAreTheManifests(t *testing.T) {
	for dir, values := range map[string]string{
		"config":                                "",
		"config/overlays/secrets-per-namespace": "secrets: {namespaces: [cloud-accounts]}",
		"config/overlays/console":               "console: {enabled: true, url: 'https://nephele.example.com'}",
		"config/overlays/nodes":                 "nodeAgents: {enabled: true}",
		"config/overlays/nodes-closed":          "nodeAgents: {enabled: true, cniPlugin: {state: chained}}",
		"config/overlays/nodes-removed":         "nodeAgents: {enabled: true, cniPlugin: {state: removed}}",
		"config/overlays/cluster-set":           "{clusterSet: {enabled: true}}",
		"config/overlays/shared-accounts":       "{sharedAccounts: {enabled: true}, replicas: 2}",
	} {
		want := kustomized(t, dir)
		if len(want) < 40 {
			t.Fatalf("%s has %d objects only", dir, len(want))
		}
		got := map[string]bool{}
		for _, o := range slices.Concat(render(t, definitions, ""), render(t, controller, values)) {
			if o.Hook() != "" {
				continue
			}
			if got[o.String()] {
				t.Errorf("%s: %s is there twice", dir, o)
			}
			got[o.String()] = true
			for _, key := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/version", "helm.sh/chart"} {
				if o.Kind() != "CustomResourceDefinition" && o.text("metadata", "labels", key) == "" {
					t.Errorf("%s has no label %s", o, key)
				}
			}
			w, ok := want[o.String()]
			if !ok {
				t.Errorf("%s does not have %s", dir, o)
			} else if g, w := withoutHelm(t, o), withoutHelm(t, w); !reflect.DeepEqual(g, w) {
				a, _ := yaml.Marshal(g)
				b, _ := yaml.Marshal(w)
				t.Errorf("%s: %s is\n%s\nwant\n%s", dir, o, a, b)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if !got[name] {
				t.Errorf("%s: the charts lack %s", dir, name)
			}
		}
	}
}

// TestReplicas: one replica has no budget and nothing to be spread; two have both, unless the
// values say otherwise.
func TestReplicas(t *testing.T) {
	const own = "[{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]"
	for values, want := range map[string]struct {
		budget bool
		spread []string
	}{
		"":            {},
		"replicas: 1": {},
		"replicas: 2": {true, []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}},
		"{replicas: 2, podDisruptionBudget: {enabled: false}, topologySpreadConstraints: " + own + "}": {false, []string{"rack"}},
		"podDisruptionBudget: {enabled: true}":                                                         {true, nil},
	} {
		budget, spread := false, []string(nil)
		for _, o := range render(t, controller, values) {
			budget = budget || o.text("kind") == "PodDisruptionBudget"
			if o.String() == "Deployment kube-system/nephele-controller" {
				spread = nil
				pod := o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
				constraints, _ := pod["topologySpreadConstraints"].([]any)
				for _, c := range constraints {
					spread = append(spread, c.(map[string]any)["topologyKey"].(string))
				}
			}
		}
		if budget != want.budget || !slices.Equal(spread, want.spread) {
			t.Errorf("%q: a budget %t, spread over %v", values, budget, spread)
		}
	}
}

// TestExtras: what is put into the Pod besides is there, beside what the chart puts there.
func TestExtras(t *testing.T) {
	for _, o := range render(t, controller, `{extraEnv: [{name: AWS_MAX_ATTEMPTS, value: "5"}], podSecurityContext: {fsGroup: 7},
  extraVolumes: [{name: extra, emptyDir: {}}], extraVolumeMounts: [{name: extra, mountPath: /extra}]}`) {
		if o.String() != "Deployment kube-system/nephele-controller" {
			continue
		}
		pod := o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		c := pod["containers"].([]any)[0].(map[string]any)
		names := func(list any) (out []string) {
			for _, x := range list.([]any) {
				out = append(out, x.(map[string]any)["name"].(string))
			}
			return out
		}
		for what, got := range map[string][]string{"AWS_MAX_ATTEMPTS GOMEMLIMIT": names(c["env"]), "extra certificate": append(names(pod["volumes"]), names(c["volumeMounts"])...)} {
			for want := range strings.FieldsSeq(what) {
				if !slices.Contains(got, want) {
					t.Errorf("%s is missing among %v", want, got)
				}
			}
		}
		if s := fmt.Sprint(pod["securityContext"]); !strings.Contains(s, "fsGroup:7") || !strings.Contains(s, "runAsNonRoot:true") {
			t.Errorf("the Pod's security context is %s", s)
		}
		return
	}
	t.Error("no Deployment")
}

// TestUpstreamDefinitions: they come on request only.
func TestUpstreamDefinitions(t *testing.T) {
	with, without := render(t, definitions, "upstream: true"), render(t, definitions, "")
	if len(with) != len(without)+3 {
		t.Errorf("%d definitions with the upstream ones, %d without", len(with), len(without))
	}
	for _, o := range with {
		if o.text("metadata", "annotations", "helm.sh/resource-policy") != "keep" {
			t.Errorf("%s goes with the release, and all objects of the kind with it", o)
		}
	}
}

// TestSecretsStay: no Secret of the chart goes with the release.
func TestSecretsStay(t *testing.T) {
	var kept []string
	for _, o := range render(t, controller, "{nodeAgents: {enabled: true}, console: {enabled: true, url: 'https://x'}, clusterSet: {enabled: true}, sharedAccounts: {enabled: true}, replicas: 2}") {
		if o.Kind() != "Secret" {
			continue
		}
		if kept = append(kept, o.Name()); o.text("metadata", "annotations", "helm.sh/resource-policy") != "keep" {
			t.Errorf("%s goes with the release", o)
		}
	}
	if !slices.Contains(kept, "nephele-record-key") || !slices.Contains(kept, "nephele-host-authority") {
		t.Errorf("Secrets %q", kept)
	}
}

// TestNetwork: with a mode the agents make the network of the Nodes, for which they need the
// folders of CNI plugins and no other right.
func TestNetwork(t *testing.T) {
	for values, want := range map[string][]string{
		"nodeAgents: {enabled: true}":                         {"--node=$(NODE_NAME)"},
		"nodeAgents: {enabled: true, network: {mode: encap}}": {"--node=$(NODE_NAME)", "--network-mode=encap", "--cni-conf-dir=/etc/cni/net.d"},
		"nodeAgents: {enabled: true, network: {mode: hybrid, port: 8472, mtu: 1400, noSNAT: true, snatExcept: [10.0.0.0/8]}}": {
			"--node=$(NODE_NAME)", "--network-mode=hybrid", "--network-port=8472", "--network-mtu=1400", "--network-no-snat", "--network-snat-except=10.0.0.0/8", "--cni-conf-dir=/etc/cni/net.d"},
		"nodeAgents: {enabled: true, network: {mode: noEncap, services: nephele, apiServer: {host: 192.0.2.1}}}": {
			"--node=$(NODE_NAME)", "--network-mode=noEncap", "--network-services=nephele", "--cni-conf-dir=/etc/cni/net.d"},
		"nodeAgents: {enabled: true, network: {mode: encap}, cniPlugin: {state: removed}}": {"--node=$(NODE_NAME)"},
		"nodeAgents: {enabled: true, network: {mode: encap, encryption: wireguard, wireguardPort: 51821}}": {
			"--node=$(NODE_NAME)", "--network-mode=encap", "--network-encryption=wireguard", "--network-wireguard-port=51821", "--cni-conf-dir=/etc/cni/net.d"},
		"nodeAgents: {enabled: true, network: {encryption: wireguard-or-clear}}":                                  {"--node=$(NODE_NAME)", "--network-encryption=wireguard-or-clear"},
		"nodeAgents: {enabled: true, network: {mode: encap, encryption: wireguard}, cniPlugin: {state: removed}}": {"--node=$(NODE_NAME)"},
		"nodeAgents: {enabled: true, network: {encryption: ipsec, wireguardPort: 1, ipsec: {image: swan}}}":       {"--node=$(NODE_NAME)", "--network-encryption=ipsec"},
	} {
		found := false
		for _, o := range render(t, controller, values) {
			if o.String() != "DaemonSet kube-system/nephele-node-agent" {
				continue
			}
			found = true
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			var d struct {
				Spec struct {
					Template struct {
						Spec struct {
							Containers []struct {
								Args            []string
								VolumeMounts    []struct{ Name string }
								SecurityContext struct{ Capabilities struct{ Add []string } }
							}
						}
					}
				}
			}
			if err := json.Unmarshal(text, &d); err != nil {
				t.Fatal(err)
			}
			c := d.Spec.Template.Spec.Containers[0]
			var mounts []string
			for _, m := range c.VolumeMounts {
				mounts = append(mounts, m.Name)
			}
			has := slices.Contains(mounts, "cni-conf") && slices.Contains(mounts, "cni-bin") && slices.Contains(mounts, "host-local")
			if !slices.Equal(c.Args, want) || has != slices.Contains(want, "--cni-conf-dir=/etc/cni/net.d") || !slices.Contains(mounts, "dev-net") || !slices.Equal(c.SecurityContext.Capabilities.Add, []string{"NET_ADMIN"}) {
				t.Errorf("%s: %q %q %v, want %q", values, c.Args, mounts, c.SecurityContext, want)
			}
		}
		if !found {
			t.Errorf("%s: there are no agents", values)
		}
	}
}

// TestIPsec: charon is beside the agents where these encrypt by it, with its own image and no right
// but to change the network, and it encrypts itself only where that is said.
func TestIPsec(t *testing.T) {
	for values, want := range map[string][]string{
		"nodeAgents: {enabled: true, network: {mode: encap, encryption: wireguard, ipsec: {image: 'swan:1'}}}":                   nil,
		"nodeAgents: {enabled: true, network: {encryption: ipsec, ipsec: {image: 'swan:1'}}}":                                    {"constraints kernel-netlink", `"image":"swan:1"`, `"add":["NET_ADMIN"]`, `["charon-systemd"]`},
		"nodeAgents: {enabled: true, network: {encryption: ipsec-or-clear, ipsec: {image: 's', inCharon: true, command: [/c]}}}": {"constraints kernel-libipsec kernel-netlink", `"command":["/c"]`},
	} {
		text := ""
		for _, o := range render(t, controller, values) {
			if strings.HasSuffix(o.String(), "/nephele-node-ipsec") {
				raw, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				text += string(raw)
			}
		}
		if (text == "") != (want == nil) {
			t.Errorf("%s: %q", values, text)
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %s in %s", values, part, text)
			}
		}
	}
}

// TestInAnotherNamespace: "helm install -n x" installs into x all but what is kept in kube-system,
// and everything that names the controller or its Service names it there. The account may be one
// that exists.
func TestInAnotherNamespace(t *testing.T) {
	kept := []string{"ConfigMap kube-system/antrea-ca", "Lease kube-system/nephele-controller", "Lease kube-system/nephele-policies", "Secret kube-system/nephele-record-key", "Secret kube-system/nephele-host-authority",
		"Secret kube-system/nephele-history-key", "ConfigMap kube-system/nephele-history-keys"}
	var v map[string]any
	if err := yaml.UnmarshalStrict([]byte("{serviceAccount: {create: false, name: mine}, nodeAgents: {enabled: true}, console: {enabled: true, url: 'https://x'}, tls: {mode: certManager}}"), &v); err != nil {
		t.Fatal(err)
	}
	objects, err := load(t, controller).RenderIn("x", v)
	if err != nil {
		t.Fatal(err)
	}
	services, subjects := 0, 0
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if ns := o.Namespace(); ns != "" && ns != "x" && !slices.Contains([]string{"Role", "RoleBinding"}, o.Kind()) && !slices.Contains(kept, o.String()) && !strings.HasPrefix(o.Name(), "nephele-instance") {
			t.Errorf("%s is not in x", o)
		}
		if o.String() == "ServiceAccount x/mine" || o.Name() == "nephele-controller" && o.Kind() == "ServiceAccount" {
			t.Errorf("%s is there", o)
		}
		text := string(raw)
		services += strings.Count(text, `"service":{"name":"antrea","namespace":"x"`)
		subjects += strings.Count(text, `"name":"mine","namespace":"x"`)
		for _, wrong := range []string{`"name":"antrea","namespace":"kube-system"`, `"kind":"ServiceAccount","name":"nephele-controller"`, "system:serviceaccount:kube-system:nephele-controller"} {
			if strings.Contains(text, wrong) {
				t.Errorf("%s still has %s", o, wrong)
			}
		}
		if o.String() == "Deployment x/nephele-controller" && (!strings.Contains(text, `"--api-namespace=x"`) || !strings.Contains(text, `"--leader-namespace=kube-system"`) || !strings.Contains(text, `"serviceAccountName":"mine"`)) {
			t.Errorf("%s", text)
		}
		if o.String() == "Certificate x/nephele-api" && !strings.Contains(text, "antrea.x.svc") {
			t.Errorf("%s", text)
		}
	}
	if services < 10 || subjects < 3 {
		t.Errorf("%d services and %d subjects are named", services, subjects)
	}
}

// TestEgress: the controller goes to DNS and to the ports that the values name, and to where clouds
// give out credentials only if its identity is lent.
func TestEgress(t *testing.T) {
	usual := "443 6443 8443 10349 16443"
	for values, want := range map[string]string{
		"": usual,
		"{proxy: {https: 'http://proxy.example:3128'}}": usual + " 3128",
		"{traces: {endpoint: 'http://collector.observability:4317/'}, allowedEndpoints: ['ec2.example:8773', '[fd00::1]:9443']}": usual + " 8773 9443 4317",
		"{allowedEndpoints: ['ec2.example']}":                                                       "any",
		"{allowedEndpoints: ['fd00::1']}":                                                           "any",
		"{allowedEndpoints: [10.0.0.0/8]}":                                                          "any",
		"{antrea: {enabled: true, kubeconfigSecret: a}}":                                            "any",
		"{networkPolicy: {egress: {ports: [443]}}}":                                                 "443",
		"{ambientIdentity: {namespaces: [a]}}":                                                      usual + " / 80 of 169.254.169.254/32",
		"{networkPolicy: {egress: {enabled: false}}}":                                               "none",
		"{networkPolicy: {egress: {ports: [443], more: [{ports: [{protocol: UDP, port: 4739}]}]}}}": "443 / 4739 of all",
	} {
		got := "missing"
		for _, o := range render(t, controller, values) {
			if o.String() != "NetworkPolicy kube-system/nephele-controller" {
				continue
			}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			var p networkPolicy
			if err := json.Unmarshal(text, &p); err != nil {
				t.Fatal(err)
			}
			got = egressOf(t, p)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", values, got, want)
		}
	}
}

// networkPolicy is what is looked at of one.
type networkPolicy struct {
	Spec struct {
		PolicyTypes []string
		Egress      []struct {
			To []struct {
				IPBlock struct {
					CIDR   string
					Except []string
				}
			}
			Ports []struct{ Port *int }
		}
	}
}

// egressOf is where a policy lets its Pods go besides to DNS, in words.
func egressOf(t *testing.T, p networkPolicy) string {
	t.Helper()
	spec := p.Spec
	if !slices.Contains(spec.PolicyTypes, "Egress") {
		return "none"
	}
	var rules []string
	for i, rule := range spec.Egress {
		var ports []string
		for _, p := range rule.Ports {
			if p.Port == nil {
				ports = append(ports, "any")
			} else {
				ports = append(ports, fmt.Sprint(*p.Port))
			}
		}
		text := strings.Join(ports, " ")
		switch {
		case i == 0:
			if text != "53 53" {
				t.Errorf("to DNS: %s", text)
			}
			continue
		case i == 1:
			if len(rule.To) != 2 || !slices.Contains(rule.To[0].IPBlock.Except, "169.254.0.0/16") {
				t.Errorf("to everybody: %v", rule.To)
			}
		case len(rule.To) == 0:
			text += " of all"
		default:
			text += " of " + rule.To[0].IPBlock.CIDR
		}
		rules = append(rules, text)
	}
	return strings.Join(rules, " / ")
}

// TestReleaseReadsNoSecrets: the Job that gives all accounts back has no right to a Secret,
// whatever the values.
func TestReleaseReadsNoSecrets(t *testing.T) {
	for _, values := range []string{"", "secrets: {namespaces: [cloud-accounts]}"} {
		roles := 0
		for _, o := range render(t, controller, values) {
			if o.Name() != "nephele-release" || o.Kind() != "ClusterRole" && o.Kind() != "Role" {
				continue
			}
			roles++
			if text, err := json.Marshal(o); err != nil || strings.Contains(string(text), "secrets") {
				t.Errorf("%s: %v %s", o, err, text)
			}
		}
		if roles != 2 {
			t.Errorf("%q: %d roles", values, roles)
		}
	}
}

// TestServices: agents that lead to Services may read their endpoints, in whichever namespace they
// are, and others may not.
func TestServices(t *testing.T) {
	for values, want := range map[string]string{
		"nodeAgents: {enabled: true, network: {mode: encap}}":                                                 "",
		"nodeAgents: {enabled: true, network: {mode: encap, services: nephele}}":                              "kube-system",
		"{namespace: other, nodeAgents: {enabled: true, network: {mode: encap, services: nephele}}}":          "other",
		"nodeAgents: {enabled: true, network: {services: nephele}}":                                           "",
		"nodeAgents: {enabled: true, network: {services: nephele, mode: encap}, cniPlugin: {state: removed}}": "",
	} {
		got := ""
		for _, o := range render(t, controller, values) {
			if o.String() != "ClusterRoleBinding /nephele-node-agent-services" {
				continue
			}
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			var b struct{ Subjects []struct{ Namespace string } }
			if err := json.Unmarshal(text, &b); err != nil {
				t.Fatal(err)
			}
			got = b.Subjects[0].Namespace
		}
		if got != want {
			t.Errorf("%s: the agents of namespace %q may read endpoints, want %q", values, got, want)
		}
	}
}

// TestRefused: what goes wrong is refused before anything is installed, by what is said about it.
func TestRefused(t *testing.T) {
	c := load(t, controller)
	for values, want := range map[string]string{
		"nodeAgents: {cniPlugin: {state: maybe}}":           "state",
		"nodeAgents: {cniPlugin: {confDir: here}}":          "confDir",
		"nodeAgents: {cniPlugin: {whenAgentIsAway: maybe}}": "whenAgentIsAway",
		"replica: 2":                    "replica",
		"replicas: -1":                  "replicas",
		"image: {digest: latest}":       "digest",
		"image: {tag: latest}":          "tag",
		"image: {repository: a@sha256}": "repository",
		"{namespace: elsewhere, sharedAccounts: {enabled: true}}":                 "kube-system",
		"serviceAccount: {create: false}":                                         "serviceAccount.name",
		"{noClouds: true, antrea: {enabled: true}}":                               "nothing to do",
		"{sharedAccounts: {enabled: true}, noClouds: true}":                       "sharedAccounts",
		"antrea: {kubeconfigSecret: a}":                                           "antrea.enabled",
		"tls: {mode: none}":                                                       "tls",
		"secrets: {namespaces: [A]}":                                              "namespaces",
		"secrets: {namespaces: ['a, b']}":                                         "namespaces",
		"extraEnv: [{name: POD_NAME, value: a}]":                                  "extraEnv",
		"extraVolumes: [{name: certificate, emptyDir: {}}]":                       "extraVolumes",
		"extraVolumeMounts: [{name: a, mountPath: /etc/nephele/ca}]":              "extraVolumeMounts",
		"podDisruptionBudget: {enabled: maybe}":                                   "podDisruptionBudget",
		"networkPolicy: {apiFrom: []}":                                            "apiFrom",
		"networkPolicy: {metricsFrom: {}}":                                        "",
		"allowedEndpoints: ['a,b']":                                               "allowedEndpoints",
		"extraArgs: [controller]":                                                 "extraArgs",
		"resources: {limits: {memory: 100}}":                                      "memory",
		"resources: {limits: {memory: 100M}}":                                     "memory",
		"proxy: {https: 'proxy.example:3128'}":                                    "https",
		"traces: {endpoint: 'collector:4317'}":                                    "endpoint",
		"serviceMonitor: {enabled: true, interval: 1}":                            "interval",
		"console: {enabled: true}":                                                "console.url",
		"console: {enabled: true, url: 'http://x'}":                               "url",
		"console: {enabled: true, url: 'https://x/y'}":                            "url",
		"console: {enabled: true, url: 'https://x', tokenLogin: false}":           "nobody could log in",
		"console: {enabled: true, url: 'https://x', oidc: {issuer: 'https://y'}}": "clientID",
		"console: {networkPolicy: {from: {}}}":                                    "",
		"nodeAgents: {network: {mode: geneve}}":                                   "mode",
		"nodeAgents: {network: {services: ipvs}}":                                 "services",
		"nodeAgents: {network: {apiServer: {host: 'a b'}}}":                       "host",
		"nodeAgents: {network: {port: 0}}":                                        "port",
		"nodeAgents: {network: {encryption: rot13}}":                              "encryption",
		"nodeAgents: {network: {wireguardPort: 0}}":                               "wireguardPort",
		"nodeAgents: {enabled: true, network: {encryption: ipsec}}":               "nodeAgents.network.ipsec.image",
		"nodeAgents: {network: {snatExcept: ['--node=other']}}":                   "snatExcept",
		"nodeAgents: {podCIDRs: [10.0.0.0]}":                                      "podCIDRs",
		"nodeAgents: {podCIDRs: ['--node=other']}":                                "podCIDRs",
		"serviceMonitor: {enabled: true, serviceAccount: {name: prometheus}}":     "serviceMonitor.serviceAccount.namespace",
	} {
		var v map[string]any
		if err := yaml.UnmarshalStrict([]byte(values), &v); err != nil {
			t.Fatal(err)
		}
		_, err := c.Render(v)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", values, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a word on %q", values, err, want)
		}
	}
}

// TestCombinations: with every combination of switches the objects are told apart by their names,
// are in a namespace that the values name, and objects of other projects have the right form.
func TestCombinations(t *testing.T) {
	c := load(t, controller)
	types := &foreign{schemas: certManager(t)}
	var n atomic.Int32
	err := Combinations(Switches(), func(name string, values map[string]any) error {
		n.Add(1)
		objects, err := c.Render(values)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		seen := map[string]bool{}
		for _, o := range objects {
			if seen[o.String()] {
				t.Errorf("%s: %s is there twice", name, o)
			}
			seen[o.String()] = true
			if err := types.check(o); err != nil {
				t.Errorf("%s: %s: %v", name, o, err)
			}
		}
		served := values["antrea"] == nil
		for what, want := range map[string]bool{
			"Deployment " + namespace(values) + "/nephele-controller":          true,
			"Service kube-system/antrea":                                       served,
			"ConfigMap kube-system/antrea-ca":                                  served,
			"APIService /v1beta2.controlplane.antrea.io":                       served,
			"ClusterRole /nephele-controller-antrea":                           !served,
			"Secret kube-system/nephele-record-key":                            values["noClouds"] == nil,
			"ClusterRole /nephele-controller-secrets":                          values["noClouds"] == nil,
			"ClusterRoleBinding /nephele-controller-secrets":                   values["noClouds"] == nil && values["secrets"] == nil,
			"RoleBinding cloud-accounts/nephele-controller-secrets":            values["noClouds"] == nil && values["secrets"] != nil,
			"Job " + namespace(values) + "/nephele-release":                    values["noClouds"] == nil && values["releaseOnDelete"] == nil,
			"Certificate " + namespace(values) + "/nephele-api":                served && values["tls"] != nil,
			"PodDisruptionBudget " + namespace(values) + "/nephele-controller": values["podDisruptionBudget"] != nil || values["replicas"] != nil,
			"NetworkPolicy " + namespace(values) + "/nephele-controller":       values["networkPolicy"] == nil,
			"ServiceMonitor " + namespace(values) + "/nephele":                 values["serviceMonitor"] != nil,
			"Deployment " + namespace(values) + "/nephele-console":             values["console"] != nil,
			"ServiceAccount " + namespace(values) + "/nephele-console":         values["console"] != nil,
			"Service " + namespace(values) + "/nephele-console":                values["console"] != nil,
			"NetworkPolicy " + namespace(values) + "/nephele-console":          values["console"] != nil,
			"Ingress " + namespace(values) + "/nephele-console":                values["console"] != nil,
			"DaemonSet " + namespace(values) + "/nephele-node-agent":           values["nodeAgents"] != nil,
			"ServiceAccount " + namespace(values) + "/nephele-node-agent":      values["nodeAgents"] != nil,
			"ValidatingAdmissionPolicy /nephele-agent":                         served,
			"Secret kube-system/nephele-host-authority":                        served,
			"PrometheusRule " + namespace(values) + "/nephele":                 values["alerts"] != nil,
		} {
			if seen[what] != want {
				t.Errorf("%s: %s is there: %t", name, what, seen[what])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n.Load() < 300 {
		t.Errorf("only %d combinations", n.Load())
	}
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule", "Certificate", "Issuer"} {
		if types.kinds[kind] == 0 {
			t.Errorf("no %s was checked", kind)
		}
	}
}

func namespace(values map[string]any) string {
	if ns, ok := values["namespace"].(string); ok {
		return ns
	}
	return "kube-system"
}

// TestConsoleHasNoRights: whatever the mode, no role is bound to the account of the console, and
// its Pod gets no token.
func TestConsoleHasNoRights(t *testing.T) {
	c := load(t, controller)
	for i, values := range Switches()[0].States {
		values = maps.Clone(values)
		if values == nil {
			values = map[string]any{}
		}
		values["console"] = map[string]any{"enabled": true, "url": "https://nephele.example.com", "allowEdit": true}
		objects, err := c.Render(values)
		if err != nil {
			t.Fatal(err)
		}
		checked := 0
		for _, o := range objects {
			subjects, _ := o["subjects"].([]any)
			for _, s := range subjects {
				if s.(map[string]any)["name"] == "nephele-console" {
					t.Errorf("mode %d: %s is for the console", i, o)
				}
			}
			if o.Name() != "nephele-console" || o.Kind() != "Deployment" && o.Kind() != "ServiceAccount" {
				continue
			}
			checked++
			raw, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if text := string(raw); !strings.Contains(text, `"automountServiceAccountToken":false`) || strings.Contains(text, `"serviceAccountToken"`) {
				t.Errorf("mode %d: %s may have a token", i, o)
			}
		}
		if checked != 2 {
			t.Errorf("mode %d: %d objects were looked at", i, checked)
		}
	}
}

// foreign holds objects of other projects against the types of those projects, and objects of
// cert-manager against the schemas of its definitions as well.
type foreign struct {
	schemas map[string]validation.SchemaValidator

	mu sync.Mutex
	// checked are the verdicts so far, by what the objects are, and kinds counts them.
	checked map[string]error
	kinds   map[string]int
}

func (f *foreign) check(o Object) error {
	var into any
	switch o.Kind() {
	case "ServiceMonitor":
		into = &monitoringv1.ServiceMonitor{}
	case "PrometheusRule":
		into = &monitoringv1.PrometheusRule{}
	case "Certificate":
		into = &certmanagerv1.Certificate{}
	case "Issuer":
		into = &certmanagerv1.Issuer{}
	default:
		return nil
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err, known := f.checked[string(raw)]; known {
		return err
	}
	err = yaml.UnmarshalStrict(raw, into)
	if schema := f.schemas[o.Kind()]; schema != nil && err == nil {
		err = validation.ValidateCustomResource(nil, map[string]any(o), schema).ToAggregate()
	}
	if f.checked == nil {
		f.checked, f.kinds = map[string]error{}, map[string]int{}
	}
	f.checked[string(raw)] = err
	f.kinds[o.Kind()]++
	return err
}

// certManager are the schemas of cert-manager's definitions, which its module has.
func certManager(t *testing.T) map[string]validation.SchemaValidator {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]validation.SchemaValidator{}
	for kind, file := range map[string]string{"Certificate": "certificates", "Issuer": "issuers"} {
		raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "deploy/crds/cert-manager.io_"+file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var d apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1" && v.Served })
		if i < 0 {
			t.Fatalf("%s is not served as v1", kind)
		}
		var schema apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(d.Spec.Versions[i].Schema.OpenAPIV3Schema, &schema, nil); err != nil {
			t.Fatal(err)
		}
		if out[kind], _, err = validation.NewSchemaValidator(&schema); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestForeignIsChecked: what cert-manager would not take is found: a field that it does not know,
// one that it needs, and a value that its schema refuses.
func TestForeignIsChecked(t *testing.T) {
	f := &foreign{schemas: certManager(t)}
	for text, want := range map[string]string{
		"{kind: Certificate, spec: {secretName: a, issuerRef: {name: b}, dnsNames: [c]}}":              "",
		"{kind: Certificate, spec: {secretName: a, issuerRef: {name: b}, dnsName: [c]}}":               "dnsName",
		"{kind: Certificate, spec: {secretName: a, dnsNames: [c]}}":                                    "issuerRef",
		"{kind: Certificate, spec: {secretName: a, issuerRef: {name: b}, privateKey: {algorithm: X}}}": "algorithm",
		"{kind: Issuer, spec: {ca: {secret: a}}}":                                                      "secret",
	} {
		var o Object
		if err := yaml.UnmarshalStrict([]byte("apiVersion: cert-manager.io/v1\nmetadata: {name: x}\n"), &o); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		if err := f.check(o); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a word on %q", text, err, want)
		}
	}
}
