package explain_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

// TestThroughAzureIsWhatTheCloudDoes holds what explain says of every hop of flows to load
// balancers and application gateways of Azure against the simulator: on random subscriptions,
// before and after random policies on their targets are enforced.
func TestThroughAzureIsWhatTheCloudDoes(t *testing.T) {
	t.Parallel()
	draw := func(t *testing.T, random *rand.Rand) hopped { return newAzureBalanced(t, random) }
	compareHopped(t, 8, draw, map[string]int{"Allow": 20, "Drop": 20, "Unknown": 5, "preserved": 20, "not preserved": 20, "health cut": 5, "probes let in": 5, "public": 20})
}

// azureBalanced is a virtual network with load balancers and gateways before its machines.
type azureBalanced struct {
	*balancedWorld
	fronts []netip.Addr
}

func newAzureBalanced(t *testing.T, random *rand.Rand) *azureBalanced {
	t.Helper()
	const subscription, tenant = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
	b := build.New(tenant, subscription, "westeurope")
	client := b.Principal("nephele", "secret")
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	// some are rules of a group, which lets in the rest by its defaults, or does not.
	some := func() []map[string]any {
		var out []map[string]any
		for i := range random.IntN(4) {
			out = append(out, build.Rule(fmt.Sprint("r", i), pick("Inbound", "Inbound", "Outbound"), 100+i, pick("Allow", "Allow", "Deny"), "Tcp",
				pick("", "10.1.1.0/24", "10.1.1.12", "10.1.2.0/24", "AzureLoadBalancer"), pick("", "10.1.0.0/17", "10.1.3.0/24"), pick("", "80", "8080", "8081")))
		}
		return out
	}
	own := b.SecurityGroup("shop", "own", append(some(), build.Rule("rest", "Inbound", 4000, "Deny", "", "VirtualNetwork", "", ""))...)
	apart := [][]string{{"all", "10.1.1.0/24"}, {"gate", "10.1.2.0/26"}, {"gate-2", "10.1.2.64/27"}, {"fronts", "10.1.3.0/24"}}
	for i := range apart {
		if i != 3 && random.IntN(2) == 0 {
			apart[i] = append(apart[i], b.SecurityGroup("shop", "subnet-"+apart[i][0], some()...))
		}
	}
	vnet := b.Network("shop", "shop", []string{"10.1.0.0/16"}, apart...)
	w := &azureBalanced{balancedWorld: &balancedWorld{&previewtest.World{Rand: random, Tags: []string{"web", "db"}}}}
	var nics []string
	for i := range 5 {
		vm, nic := b.Machine("shop", fmt.Sprint("vm-", i), vnet+"/subnets/all", fmt.Sprintf("10.1.1.%d", 10+i), pick("", own, own))
		for k := range b.State.Resources {
			if r := &b.State.Resources[k]; r.ID == vm {
				r.Tags = map[string]string{"app": pick("web", "db")}
			}
		}
		nics = append(nics, nic)
	}
	port := func() int { return []int{80, 8080}[random.IntN(2)] }
	listening := func(protocol ...string) (out []build.Listening) {
		for i, at := range []int{80, 81} {
			l := build.Listening{Protocol: pick(protocol...), Port: at, To: port(), Probe: []int{0, 8080, 8081}[random.IntN(3)], Pool: fmt.Sprint("p", i)}
			if random.IntN(3) == 0 {
				l.Hosts = []string{"10.1.1.14"}
			}
			out = append(out, l)
		}
		return out
	}
	for i, c := range []struct {
		gateway bool
		subnet  string
		address string
	}{{false, "fronts", "10.1.3.10"}, {false, "", "203.0.113.10"}, {true, "gate", "10.1.2.20"}, {true, "gate-2", "203.0.113.11"}} {
		address := c.address
		a := netip.MustParseAddr(c.address)
		if w.fronts = append(w.fronts, a); !a.IsPrivate() {
			address = b.PublicAddress("shop", fmt.Sprint("pip-", i), c.address)
		}
		id, name := "", fmt.Sprint("relay-", i)
		if c.gateway {
			id = b.Gateway("shop", name, vnet+"/subnets/"+c.subnet, address, nil, listening("Http", "Https")...)
		} else {
			id = b.Balancer("shop", name, vnet+"/subnets/"+c.subnet, address, nil, listening("Tcp", "Tcp", "Udp", "All")...)
		}
		for _, nic := range nics {
			for _, pool := range []string{"p0", "p1"} {
				if random.IntN(3) == 0 {
					b.Behind(nic, id+"/backendAddressPools/"+pool, c.gateway)
				}
			}
		}
	}
	server, err := sim.Start(t.Context(), sim.Options{State: aws.State{Azure: &b.State}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	account, err := azure.New(azure.Config{
		Credential: cloudv1alpha1.AzureCredential{SubscriptionID: subscription, TenantID: tenant, ClientID: client, ClientKey: "secret"}, Account: "vms/a", Cluster: "test",
		Cloud: &cloudv1alpha1.AzureCloud{Authority: server.AzureURL(), ResourceManager: server.AzureURL(), Audience: "https://management.azure.com", CABundle: string(server.AzureCertificate())},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Server, w.Provider = server, account
	return w
}

// Want makes what is wanted the policies, on all machines, and imports the services.
func (w *azureBalanced) Want(t *testing.T, policies []string) {
	t.Helper()
	services := "{kind: LoadBalancer}, {kind: ApplicationGateway}"
	w.Planner = previewtest.Planner(t, w.Provider, previewtest.Imports("azureConfig: {region: [westeurope]", "{vpcMatch: {matchName: shop}}", services, policies...))
}

// compareHops asks about flows from every machine, and from outside, to every front end.
func (w *azureBalanced) compareHops(t *testing.T, when string, seen map[string]int) {
	t.Helper()
	c, err := w.Planner.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	snap := c.Computed.Objects.Observed[0].Snapshots[0]
	sources := []simazure.End{{Addr: netip.MustParseAddr("198.51.100.7")}}
	for _, n := range snap.Interfaces {
		if n.VMID != "" {
			sources = append(sources, simazure.End{NIC: n.ID, Addr: n.PrivateIPs[0]})
		}
	}
	for _, from := range sources {
		for _, front := range w.fronts {
			if from.NIC == "" && front.IsPrivate() || from.NIC != "" && !front.IsPrivate() {
				continue // public front ends for those outside
			}
			protocol, port := []string{"TCP", "UDP"}[w.IntN(5)/4], []int{80, 81}[w.IntN(2)]
			q := explain.Question{From: from.Addr.String(), To: front.String(), Protocol: protocol, Port: strconv.Itoa(port)}
			got, err := c.Computed.Answer(q)
			if err != nil {
				t.Fatal(err)
			}
			var truth simazure.Passage
			var through bool
			w.Server.World().ReadAzure(func(c *simazure.Cloud, _ time.Time) {
				truth, through, err = c.Verdicts().Through(simazure.Flow{Src: from, Dst: simazure.End{Addr: front}, Protocol: map[string]int{"TCP": 6, "UDP": 17}[protocol], Port: port})
			})
			if err != nil || !through {
				t.Fatal(err, through)
			}
			if wrong := differsOnAzure(got, truth, seen); wrong != "" {
				t.Errorf("%s, %s -> %s: %s\nthe simulator: %+v\n%s", when, q.From, q.To, wrong, truth, previewtest.JSON(got))
				return
			}
			if !front.IsPrivate() {
				seen["public"]++
			}
		}
	}
}

// differsOnAzure says in what an answer is not what the simulator says.
func differsOnAzure(got *analysis.FlowAnswer, truth simazure.Passage, seen map[string]int) string {
	b := got.Balanced
	if !truth.Listens || b == nil {
		if truth.Listens != (b != nil) {
			return fmt.Sprintf("handed on: %t", b != nil)
		}
		return ""
	}
	seen[got.Verdict]++
	if len(b.Targets) != len(truth.Targets) {
		return "the number of targets"
	}
	for _, have := range truth.Targets {
		i := slices.IndexFunc(b.Targets, func(x analysis.BalancedTarget) bool { return x.Traffic.To == have.Addr.String() })
		if i < 0 {
			return "no target " + have.Addr.String()
		}
		x := b.Targets[i]
		switch {
		case x.Preserved != truth.Preserved || int(x.Traffic.Port) != have.Port || x.Preserved && x.Traffic.From != have.From.String():
			return "from where " + have.Addr.String() + " sees it come"
		case (x.Traffic.Verdict == "Allow") != have.Verdict.Allowed:
			return "the way to " + have.Addr.String() + ": " + have.Verdict.Reason
		case (x.Health != nil) != (have.Health != nil):
			return "whether there are health checks"
		case have.Health != nil && (x.Health.Verdict == "Allow") != have.Health.Allowed:
			return "health checks of " + have.Addr.String() + ": " + have.Health.Reason
		}
		if have.Health != nil && !have.Health.Allowed {
			seen["health cut"]++
		}
		if x.Health != nil && x.Health.Ingress.Default == explain.DefaultPlatform {
			seen["probes let in"]++
		}
	}
	seen[map[bool]string{true: "preserved", false: "not preserved"}[truth.Preserved]]++
	if entry := truth.Entry.Allowed; !entry && got.Verdict != "Drop" {
		return "the way to the front end: " + truth.Entry.Reason
	} else if entry && len(truth.Targets) > 0 && got.Verdict == "Drop" && slices.ContainsFunc(truth.Targets, func(x simazure.TargetPassage) bool {
		return x.Verdict.Allowed && (x.Health == nil || x.Health.Allowed)
	}) {
		return "the way from the front end"
	}
	return ""
}

// TestPlanWarnsOfCutAzureGateway: a policy on the targets of an application gateway that lets in
// its clients and not the gateway is warned of; one that names the gateway is not, and one on the
// targets of a load balancer that lets in its clients is not: its probes always pass.
func TestPlanWarnsOfCutAzureGateway(t *testing.T) {
	t.Parallel()
	w := newAzureBalanced(t, rand.New(rand.NewPCG(1, 2)))
	snap, err := w.Provider.(cloud.ServiceShower).Show(cloud.ServiceKinds()).Observe(t.Context(), cloud.Scope{Account: "vms/a", Region: "westeurope"})
	if err != nil {
		t.Fatal(err)
	}
	behind := map[string]bool{}
	for _, s := range snap.Services {
		for _, l := range s.Listeners {
			for _, g := range l.Groups {
				behind[s.Name] = behind[s.Name] || len(g.Targets) > 0
			}
		}
	}
	if !behind["relay-2"] || !behind["relay-0"] {
		t.Fatalf("they have no targets: %v", behind)
	}
	for _, c := range []struct {
		name, peer string
		warned     bool
	}{
		{"clients only", "{ipBlock: {cidr: 10.1.1.0/24}}", true},
		{"the gateways", "{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-kind: ApplicationGateway}}}", false},
	} {
		var policies []string
		for _, tag := range w.Tags {
			policies = append(policies, fmt.Sprintf("---\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: %s, namespace: vms}\nspec:\n  priority: 5\n"+
				"  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: %s}}}]\n  ingress: [{action: Allow, from: [%s]}]\n", tag, tag, c.peer))
		}
		w.Want(t, policies)
		made, err := w.Planner.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		answer := w.Planner.Answer(made)
		var got []string
		for i, text := range answer.Warnings {
			if answer.WarningReasons[i] == "CutsBalancer" {
				got = append(got, text)
			}
		}
		all := strings.Join(got, "\n")
		if c.warned != strings.Contains(all, "relay-2") || strings.Contains(all, "relay-0") || strings.Contains(all, "relay-1 ") {
			t.Errorf("%s: %s", c.name, all)
		}
	}
}
