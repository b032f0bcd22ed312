package explain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

const (
	// shop is a Service in front of two Pods with different target ports.
	shop = `
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: a}
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  selector: {app: web}
  ports: [{name: main, port: 80, targetPort: http, nodePort: 30080}]
---
`
	// unassigned is a Service that no API server has given an address yet.
	unassigned = `
apiVersion: v1
kind: Service
metadata: {name: late, namespace: a}
spec: {selector: {app: web}, ports: [{port: 81, targetPort: 8080}]}
---
`
	// toPods lets clients go to the Pods behind the Service, and nowhere else.
	toPods = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: only-web, namespace: a}
spec:
  priority: 1
  appliedTo: [{podSelector: {matchLabels: {app: client}}}]
  egress:
  - {name: ok, action: Allow, to: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 8080}, {port: 9090}]}
  - {name: rest, action: Drop}
---
`
	// toOnePort lets them go to one of the target ports only.
	toOnePort = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: one-port, namespace: a}
spec:
  priority: 1
  appliedTo: [{podSelector: {matchLabels: {app: client}}}]
  egress:
  - {name: ok, action: Allow, ports: [{port: 8080}]}
  - {name: rest, action: Drop}
---
`
	// toShop drops what goes to the Services.
	toShop = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: closed, namespace: a}
spec:
  priority: 1
  appliedTo: [{podSelector: {}}]
  egress: [{name: shut, action: Drop, toServices: [{name: shop}, {name: late}]}]
---
`
	// atShop is applied to the Service.
	atShop = `
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: at-shop}
spec:
  priority: 1
  appliedTo: [{service: {name: shop, namespace: a}}]
  ingress: [{name: ban, action: Drop, from: [{ipBlock: {cidr: 203.0.113.0/24}}]}]
---
`
)

// TestExplainServices: policies decide about the Pods behind a Service, after one is chosen.
func TestExplainServices(t *testing.T) {
	answers(t, town, map[string]asked{
		"by address": {shop + toPods, "a/client > 10.96.0.10 TCP 80",
			"Pod a/client > 10.96.0.10: Allow; service a/shop: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 10.1.1.20 > 10.96.0.10 at 10.1.0.10:8080; 10.1.1.20 > 10.96.0.10 at 10.1.1.11:9090 Allow; out Allow by AntreaNetworkPolicy a/only-web Out[0] ok at 250/1; in Allow native"},
		"by name": {shop + toPods, "a/client > svc/a/shop TCP main",
			"Pod a/client > Service a/shop: Allow; service a/shop: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 10.1.1.20 > 10.96.0.10 at 10.1.0.10:8080; 10.1.1.20 > 10.96.0.10 at 10.1.1.11:9090 Allow; out Allow by AntreaNetworkPolicy a/only-web Out[0] ok at 250/1; in Allow native"},
		"by a port of a Node": {shop + toPods, "a/client > node/n1 TCP 30080",
			"Pod a/client > Node n1: Allow; service a/shop: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 10.1.1.20 > 10.1.0.1 at 10.1.0.10:8080; 10.1.1.20 > 10.1.0.1 at 10.1.1.11:9090; 10.1.1.20 > 192.168.0.1 at 10.1.0.10:8080; 10.1.1.20 > 192.168.0.1 at 10.1.1.11:9090 Allow; out Allow by AntreaNetworkPolicy a/only-web Out[0] ok at 250/1; in Allow native"},
		"before it has an address": {unassigned + toPods, "a/client > svc/a/late TCP 81",
			"Pod a/client > Service a/late: Allow; service a/late: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:8080 (Pod a/web2) fd01::10:8080 (Pod a/web); 10.1.1.20 >  at 10.1.0.10:8080; 10.1.1.20 >  at 10.1.1.11:8080; fd01::20 >  at fd01::10:8080 Allow; out Allow by AntreaNetworkPolicy a/only-web Out[0] ok at 250/1; in Allow native"},
		"it depends on its choice": {shop + toOnePort, "a/client > 10.96.0.10 TCP 80",
			"Pod a/client > 10.96.0.10: Unknown; service a/shop: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 10.1.1.20 > 10.96.0.10 at 10.1.0.10:8080 Allow; out Allow by AntreaNetworkPolicy a/one-port Out[0] ok at 250/1; in Allow native; 10.1.1.20 > 10.96.0.10 at 10.1.1.11:9090 Drop; out Drop by AntreaNetworkPolicy a/one-port Out[1] rest at 250/1; in Allow native; because it depends on the endpoint that Service a/shop chooses"},
		"a port it lacks": {shop + toPods, "a/client > 10.96.0.10 TCP 443",
			"Pod a/client > 10.96.0.10: Drop; out Drop by AntreaNetworkPolicy a/only-web Out[1] rest at 250/1; in Allow none; note Service a/shop has this address, but no TCP port 443: it is decided as an address like others"},
		"no Pod behind it": {"apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {clusterIP: 10.96.0.9, selector: {app: none}, ports: [{port: 80}]}", "a/client > 10.96.0.9 TCP 80",
			"Pod a/client > 10.96.0.9: Unknown; service a/s:; because nobody is known to be behind Service a/s, with an address of the family and the port that it hands packets to"},
		"without a selector": {"apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}", "a/client > 10.96.0.9 TCP 80",
			"Pod a/client > 10.96.0.9: Unknown; service a/s:; because Service a/s has neither a selector nor EndpointSlices: its endpoints are not known here"},
		"a Pod to itself through it": {shop + deny, "a/web2 > 10.96.0.10 TCP 80",
			"Pod a/web2 > 10.96.0.10: Drop; service a/shop: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 10.1.1.11 > 10.96.0.10 at 10.1.0.10:8080 Drop; out Drop isolated of K8sNetworkPolicy a/deny; in Drop isolated of K8sNetworkPolicy a/deny; 10.1.1.11 > 10.96.0.10 at 10.1.1.11:9090 Drop; out Drop isolated of K8sNetworkPolicy a/deny; in Allow itself"},
	})
}

// TestExplainEndpointSlices: EndpointSlices, where there are any, list the endpoints of a Service.
func TestExplainEndpointSlices(t *testing.T) {
	const api = `
apiVersion: v1
kind: Service
metadata: {name: api, namespace: a}
spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: api-1, namespace: a, labels: {kubernetes.io/service-name: api}}
addressType: IPv4
ports: [{name: https, port: 6443}, {name: metrics, port: 1}]
endpoints: [{addresses: [192.168.0.1]}, {addresses: [203.0.113.9]}, {addresses: [203.0.113.10], conditions: {ready: false}}]
---
`
	const toAPI = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: to-api, namespace: a}
spec:
  priority: 1
  appliedTo: [{podSelector: {}}]
  egress: [{name: shut, action: Drop, toServices: [{name: api}]}]
---
`
	ready := strings.Replace(shop, "name: shop", "name: shop, labels: {}", 1) + `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop-1, namespace: a, labels: {kubernetes.io/service-name: shop}}
addressType: IPv4
ports: [{name: main, port: 9090, protocol: TCP}]
endpoints: [{addresses: [10.1.1.11], targetRef: {kind: Pod, name: web2, namespace: a}}]
---
`
	answers(t, town, map[string]asked{
		"without a selector": {api, "a/client > 10.96.0.1 TCP 443",
			"Pod a/client > 10.96.0.1: Allow; service a/api: 203.0.113.9:6443 192.168.0.1:6443 (Node n1); 10.1.1.20 > 10.96.0.1 at 203.0.113.9:6443 Allow; out Allow native; in Allow none; 10.1.1.20 > 10.96.0.1 at 192.168.0.1:6443 Allow; out Allow native; in Allow native"},
		"instead of the selector": {ready + toPods, "a/client > svc/a/shop TCP 80",
			"Pod a/client > Service a/shop: Allow; service a/shop: 10.1.1.11:9090 (Pod a/web2); out Allow by AntreaNetworkPolicy a/only-web Out[0] ok at 250/1; in Allow native"},
		"a rule for the Service": {api + toAPI, "a/client > svc/a/api TCP 443",
			"Pod a/client > Service a/api: Drop; service a/api: 203.0.113.9:6443 192.168.0.1:6443 (Node n1); 10.1.1.20 > 10.96.0.1 at 203.0.113.9:6443 Drop; out Drop by AntreaNetworkPolicy a/to-api Out[0] shut at 250/1; in Allow none; 10.1.1.20 > 10.96.0.1 at 192.168.0.1:6443 Drop; out Drop by AntreaNetworkPolicy a/to-api Out[0] shut at 250/1; in Allow native"},
		"one behind it": {api + toAPI, "a/client > node/n1 TCP 6443",
			"Pod a/client > Node n1: Unknown; out Unknown perhaps by AntreaNetworkPolicy a/to-api Out[0] shut at 250/1 if Service a/api of Allow|Drop; in Allow native"},
		"not behind it": {api + toAPI, "a/client > node/n2 TCP 6443",
			"Pod a/client > Node n2: Allow; out Allow native; in Allow native"},
	})
}

// TestExplainToServices: a rule with toServices matches what is sent to an address of such a
// Service, on one of its ports.
func TestExplainToServices(t *testing.T) {
	answers(t, town, map[string]asked{
		"to the Service": {shop + toShop, "a/client > 10.96.0.10 TCP 80",
			"Pod a/client > 10.96.0.10: Drop; service a/shop: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 10.1.1.20 > 10.96.0.10 at 10.1.0.10:8080; 10.1.1.20 > 10.96.0.10 at 10.1.1.11:9090 Drop; out Drop by AntreaNetworkPolicy a/closed Out[0] shut at 250/1; in Allow native"},
		"to another": {strings.ReplaceAll(shop, "name: shop", "name: other") + toShop, "a/client > svc/a/other TCP 80",
			"Pod a/client > Service a/other: Allow; service a/other: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 10.1.1.20 > 10.96.0.10 at 10.1.0.10:8080; 10.1.1.20 > 10.96.0.10 at 10.1.1.11:9090 Allow; out Allow native; in Allow native"},
		"to a Pod behind it": {shop + toShop, "a/client > a/web2 TCP 9090",
			"Pod a/client > Pod a/web2: Unknown; out Unknown perhaps by AntreaNetworkPolicy a/closed Out[0] shut at 250/1 if Service a/shop or Service a/late of Allow|Drop; in Allow native"},
		"to the Pod by address": {shop + toShop, "a/client > 10.1.1.11 TCP 9090",
			"Pod a/client > Pod a/web2: Allow; out Allow native; in Allow native"},
		"to a port it lacks": {shop + unassigned + toShop, "a/client > a/web2 TCP 443",
			"Pod a/client > Pod a/web2: Allow; out Allow native; in Allow native"},
		"ICMP": {shop + toShop, "a/client > a/web2 ICMP",
			"Pod a/client > Pod a/web2 type 8/0: Allow; out Allow native; in Allow native"},
		"to a Pod elsewhere": {shop + unassigned + toShop, "a/web > a/client TCP 80",
			"Pod a/web > Pod a/client: Allow; out Allow native; in Allow native"},
		"to some address": {shop + unassigned + toShop, "a/client > 198.51.100.1 TCP 80",
			"Pod a/client > 198.51.100.1: Allow; out Allow native; in Allow none"},
		"to what may be one": {shop + unassigned + toShop, "a/client > 198.51.100.1 TCP 81",
			"Pod a/client > 198.51.100.1: Unknown; out Unknown perhaps by AntreaNetworkPolicy a/closed Out[0] shut at 250/1 if Service a/shop or Service a/late of Allow|Drop; in Allow none"},
		"of a Service not given": {toShop, "a/client > 198.51.100.1 TCP 80",
			"Pod a/client > 198.51.100.1: Unknown; out Unknown perhaps by AntreaNetworkPolicy a/closed Out[0] shut at 250/1 if Service a/shop or Service a/late of Allow|Drop; in Allow none"},
		"ICMP to one not given": {toShop, "a/client > 198.51.100.1 ICMP",
			"Pod a/client > 198.51.100.1 type 8/0: Allow; out Allow native; in Allow none"},
		"without address for all": {strings.Replace(unassigned, "{selector", "{clusterIP: None, selector", 1) + shop + toShop, "a/client > a/web TCP 81",
			"Pod a/client > Pod a/web: Allow; out Allow native; in Allow native"},
	})
}

// TestExplainAppliedToService: what applies to a Service holds for clients outside the cluster.
func TestExplainAppliedToService(t *testing.T) {
	answers(t, town, map[string]asked{
		"from outside": {shop + atShop, "203.0.113.7 > node/n1 TCP 30080",
			"203.0.113.7 > Node n1: Drop; service a/shop: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 203.0.113.7 > 10.1.0.1 at 10.1.0.10:8080; 203.0.113.7 > 10.1.0.1 at 10.1.1.11:9090; 203.0.113.7 > 192.168.0.1 at 10.1.0.10:8080; 203.0.113.7 > 192.168.0.1 at 10.1.1.11:9090 Drop; out Allow none; service Drop by AntreaClusterNetworkPolicy at-shop In[0] ban at 250/1; in Allow native; note Service a/shop may hide the sender from the Pods behind it: they then see an address of a Node"},
		"from elsewhere": {shop + atShop, "198.51.100.7 > 10.96.0.10 TCP 80",
			"198.51.100.7 > 10.96.0.10: Allow; service a/shop: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 198.51.100.7 > 10.96.0.10 at 10.1.0.10:8080; 198.51.100.7 > 10.96.0.10 at 10.1.1.11:9090 Allow; out Allow none; service Allow native; in Allow native; note Service a/shop may hide the sender from the Pods behind it: they then see an address of a Node"},
		"from a Pod": {shop + atShop, "a/client > 10.96.0.10 TCP 80",
			"Pod a/client > 10.96.0.10: Allow; service a/shop: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 10.1.1.20 > 10.96.0.10 at 10.1.0.10:8080; 10.1.1.20 > 10.96.0.10 at 10.1.1.11:9090 Allow; out Allow native; in Allow native; note what applies to Service a/shop holds for clients outside the cluster only: AntreaClusterNetworkPolicy at-shop"},
		"not at the Pod": {shop + atShop, "203.0.113.7 > a/web TCP 8080",
			"203.0.113.7 > Pod a/web: Allow; out Allow none; in Allow native"},
		"the sender is lost": {shop + atShop, "198.51.100.7 > svc/a/shop TCP 80",
			"198.51.100.7 > Service a/shop: Allow; service a/shop: 10.1.0.10:8080 (Pod a/web) 10.1.1.11:9090 (Pod a/web2); 198.51.100.7 > 10.96.0.10 at 10.1.0.10:8080; 198.51.100.7 > 10.96.0.10 at 10.1.1.11:9090 Allow; out Allow none; service Allow native; in Allow native; note Service a/shop may hide the sender from the Pods behind it: they then see an address of a Node"},
	})
}

// TestBadQuestionsOfServices: a question that has no answer says which part of it is wrong.
func TestBadQuestionsOfServices(t *testing.T) {
	headless := "apiVersion: v1\nkind: Service\nmetadata: {name: headless, namespace: a}\nspec: {clusterIP: None, ports: [{port: 80}]}\n"
	c := preview.Compute(previewtest.Inputs(t, town+shop+headless))
	for question, want := range map[string]struct{ part, text string }{
		"svc/a/shop > a/web TCP 80":         {"from", `"svc/a/shop": a Service sends nothing`},
		"a/web > svc/a/nope TCP 80":         {"to", "there is no Service of this name"},
		"a/web > svc/a/shop TCP 81":         {"to", "Service a/shop has no TCP port 81; it has TCP port 80"},
		"a/web > svc/a/shop ICMP":           {"to", "Service a/shop has no ICMP; it has TCP port 80"},
		"a/web > svc/a/shop TCP nope":       {"port", `"nope"`},
		"a/web > svc/a/headless TCP 80":     {"to", "Service a/headless has no address of its own"},
		"a/web > svc/a/shop/x TCP 80":       {"to", "want NAMESPACE/NAME"},
		"a/web > 2001:db8::1 IGMP":          {"igmp-type", "is missing"},
		"a/web2 > a/client ICMPv6":          {"protocol", "have no addresses of the family"},
		"a/web > a/client IGMP 17 10.0.0.1": {"igmp-group", `"10.0.0.1": want an IPv4 multicast address`},
	} {
		got, err := c.Computed.Answer(parse(t, question))
		if err == nil {
			t.Errorf("%s: %s", question, summary(got))
			continue
		}
		part := ""
		if wrong := (*explain.QuestionError)(nil); errors.As(err, &wrong) {
			part = wrong.Part
		}
		if part != want.part || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: about %q: %v, want %+v", question, part, err, want)
		}
	}
}
