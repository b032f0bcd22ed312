package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
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
	handsOn = "Service a/shop hands it to Pod a/web (10.1.0.10 port 8080) or Pod a/web2 (10.1.1.11 port 9090)"
)

// TestExplainServices: policies decide about the Pods behind a Service, after one is chosen.
func TestExplainServices(t *testing.T) {
	answer(t, map[string]ask{
		"by address": {shop + toPods, "--from a/client --to 10.96.0.10 --port 80", ExitDone,
			[]string{"Pod a/client -> 10.96.0.10 (Service a/shop), TCP port 80: Allow", handsOn, `egress  Allow: rule "ok"`}},
		"by name": {shop + toPods, "--from a/client --to svc/a/shop --port main", ExitDone,
			[]string{"Pod a/client -> Service a/shop, TCP port 80: Allow", handsOn}},
		"by a port of a Node": {shop + toPods, "--from a/client --to node/n1 --port 30080", ExitDone, []string{"-> Node n1 (Service a/shop), TCP port 30080: Allow", handsOn}},
		"before it has an address": {unassigned + toPods, "--from a/client --to svc/a/late --port 81", ExitDone, []string{
			"Service a/late hands it to Pod a/web (10.1.0.10 port 8080) or Pod a/web2 (10.1.1.11 port 8080) or Pod a/web (fd01::10 port 8080)"}},
		"it depends on its choice": {shop + toOnePort, "--from a/client --to 10.96.0.10 --port 80", ExitNo, []string{
			": Unknown\n  it depends on the endpoint that Service a/shop chooses\n",
			"10.1.1.20 -> 10.96.0.10 at Pod a/web (10.1.0.10 port 8080): Allow", "10.1.1.20 -> 10.96.0.10 at Pod a/web2 (10.1.1.11 port 9090): Drop"}},
		"a port it lacks": {shop + toPods, "--from a/client --to 10.96.0.10 --port 443", ExitNo,
			[]string{"10.96.0.10, TCP port 443: Drop", "note: Service a/shop has this address, but no TCP port 443", `egress  Drop: rule "rest"`}},
		"nobody behind it": {"apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {clusterIP: 10.96.0.9, selector: {app: none}, ports: [{port: 80}]}",
			"--from a/client --to 10.96.0.9 --port 80", ExitNo, []string{": Unknown\n  nobody is known to be behind Service a/s"}},
		"without a selector": {"apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: a}\nspec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}",
			"--from a/client --to 10.96.0.9 --port 80", ExitNo, []string{": Unknown\n  Service a/s has neither a selector nor EndpointSlices"}},
		"a Pod to itself through it": {
			shop + deny,
			"--from a/web2 --to 10.96.0.10 --port 80",
			ExitNo,
			[]string{
				"at Pod a/web2 (10.1.1.11 port 9090): Drop\n    egress  Drop: no rule allows it, and the direction is isolated by K8sNetworkPolicy a/deny\n    ingress Allow: it goes to where",
			},
		},
	})
}

// TestExplainEndpointSlices: where there are EndpointSlices these say who is behind a Service.
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
	answer(t, map[string]ask{
		"without a selector": {api, "--from a/client --to 10.96.0.1 --port 443", ExitDone, []string{
			"Pod a/client -> 10.96.0.1 (Service a/api), TCP port 443: Allow", "hands it to 203.0.113.9 port 6443 or Node n1 (192.168.0.1 port 6443)\n"}},
		"instead of the selector": {ready + toPods, "--from a/client --to svc/a/shop --port 80", ExitDone, []string{"hands it to Pod a/web2 (10.1.1.11 port 9090)\n"}},
		"a rule for the Service":  {api + toAPI, "--from a/client --to svc/a/api --port 443", ExitNo, []string{": Drop", `egress  Drop: rule "shut"`}},
		"one behind it":           {api + toAPI, "--from a/client --to node/n1 --port 6443", ExitNo, []string{": Unknown"}},
		"not behind it":           {api + toAPI, "--from a/client --to node/n2 --port 6443", ExitDone, []string{": Allow"}},
	})
}

// TestExplainToServices: a rule with toServices matches what is sent to an address of such a
// Service, on one of its ports.
func TestExplainToServices(t *testing.T) {
	shut := `rule "shut" (AntreaNetworkPolicy a/closed, tier 250, priority 1, rule 0)`
	answer(t, map[string]ask{
		"to the Service": {shop + toShop, "--from a/client --to 10.96.0.10 --port 80", ExitNo, []string{": Drop", "egress  Drop: " + shut}},
		"to another":     {strings.ReplaceAll(shop, "name: shop", "name: other") + toShop, "--from a/client --to svc/a/other --port 80", ExitDone, []string{": Allow"}},
		"to a Pod behind it": {
			shop + toShop,
			"--from a/client --to a/web2 --port 9090",
			ExitNo,
			[]string{": Unknown", shut + ", if the destination is Service a/shop or Service a/late", "only the enforcer knows: Allow or Drop"},
		},
		"to the Pod by address":  {shop + toShop, "--from a/client --to 10.1.1.11 --port 9090", ExitDone, []string{": Allow"}},
		"to a port it lacks":     {shop + unassigned + toShop, "--from a/client --to a/web2 --port 443", ExitDone, []string{": Allow"}},
		"ICMP":                   {shop + toShop, "--from a/client --to a/web2 --protocol ICMP", ExitDone, []string{": Allow"}},
		"to a Pod elsewhere":     {shop + unassigned + toShop, "--from a/web --to a/client --port 80", ExitDone, []string{": Allow"}},
		"to some address":        {shop + unassigned + toShop, "--from a/client --to 198.51.100.1 --port 80", ExitDone, []string{": Allow"}},
		"to what may be one":     {shop + unassigned + toShop, "--from a/client --to 198.51.100.1 --port 81", ExitNo, []string{": Unknown"}},
		"of a Service not given": {toShop, "--from a/client --to 198.51.100.1 --port 80", ExitNo, []string{": Unknown"}},
		"ICMP to one not given":  {toShop, "--from a/client --to 198.51.100.1 --protocol ICMP", ExitDone, []string{": Allow"}},
		"without address for all": {
			strings.Replace(unassigned, "{selector", "{clusterIP: None, selector", 1) + shop + toShop,
			"--from a/client --to a/web --port 81",
			ExitDone,
			[]string{": Allow"},
		},
	})
}

// TestExplainAppliedToService: what applies to a Service holds for clients outside the cluster.
func TestExplainAppliedToService(t *testing.T) {
	ban := `service Drop: rule "ban" (AntreaClusterNetworkPolicy at-shop, tier 250, priority 1, rule 0)`
	answer(t, map[string]ask{
		"from outside":   {shop + atShop, "--from 203.0.113.7 --to node/n1 --port 30080", ExitNo, []string{": Drop", ban, handsOn}},
		"from elsewhere": {shop + atShop, "--from 198.51.100.7 --to 10.96.0.10 --port 80", ExitDone, []string{": Allow", "service Allow: no policy decides"}},
		"from a Pod": {
			shop + atShop,
			"--from a/client --to 10.96.0.10 --port 80",
			ExitDone,
			[]string{": Allow", "note: what applies to Service a/shop holds for clients outside the cluster only: AntreaClusterNetworkPolicy at-shop"},
		},
		"not at the Pod":     {shop + atShop, "--from 203.0.113.7 --to a/web --port 8080", ExitDone, []string{": Allow"}},
		"the sender is lost": {shop + atShop, "--from 198.51.100.7 --to svc/a/shop --port 80", ExitDone, []string{"note: Service a/shop may hide the sender"}},
	})
}

func TestExplainServiceJSON(t *testing.T) {
	r := nephele(t, town+shop+toOnePort, "explain", "-f", "-", "--from", "a/client", "--to", "10.96.0.10", "--port", "80", "-o", "json")
	var got analysis.FlowAnswer
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != ExitNo {
		t.Fatalf("%v: %+v", err, r)
	}
	backends := []analysis.Backend{
		{Kind: "Pod", Namespace: "a", Name: "web", Address: "10.1.0.10", Port: 8080}, {Kind: "Pod", Namespace: "a", Name: "web2", Address: "10.1.1.11", Port: 9090},
	}
	if got.Verdict != "Unknown" || got.Service == nil || !slices.Equal(got.Service.Backends, backends) || len(got.Flows) != 2 ||
		*got.Flows[1].Backend != backends[1] || got.Flows[1].Verdict != "Drop" || !strings.Contains(got.Reason, "Service a/shop") {
		t.Errorf("%s", r.stdout)
	}
}

func TestExplainBadQuestionsOfServices(t *testing.T) {
	c := inTown(t, shop+"apiVersion: v1\nkind: Service\nmetadata: {name: headless, namespace: a}\nspec: {clusterIP: None, ports: [{port: 80}]}\n")
	for args, want := range map[string]string{
		"--from svc/a/shop --to a/web --port 80":                                          `--from "svc/a/shop": a Service sends nothing`,
		"--from a/web --to svc/a/nope --port 80":                                          "there is no Service of this name",
		"--from a/web --to svc/a/shop --port 81":                                          "Service a/shop has no TCP port 81; it has TCP port 80",
		"--from a/web --to svc/a/shop --protocol ICMP":                                    "Service a/shop has no ICMP; it has TCP port 80",
		"--from a/web --to svc/a/shop --port nope":                                        `--port "nope"`,
		"--from a/web --to svc/a/headless --port 80":                                      "Service a/headless has no address of its own",
		"--from a/web --to svc/a/shop/x --port 80":                                        "want NAMESPACE/NAME",
		"--from a/web --to 2001:db8::1 --protocol IGMP":                                   "--igmp-type is missing",
		"--from a/web2 --to a/client --protocol ICMPv6":                                   "have no addresses of the family",
		"--from a/web --to a/client --protocol IGMP --igmp-type 17 --igmp-group 10.0.0.1": `--igmp-group "10.0.0.1": want an IPv4 multicast address`,
	} {
		if got, err := question(t, c, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want %q", args, got, err, want)
		}
	}
}
