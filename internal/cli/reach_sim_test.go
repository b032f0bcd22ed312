package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
)

// randomEstate draws an account with two peered VPCs and one alone, groups that refer to blocks and
// to one another, machines with one or two interfaces, some with public addresses or with one more
// for a Pod, and in each VPC a database, an interface that nobody has, and if asked for one of a
// service that no API tells of.
func randomEstate(r *rand.Rand, services bool) string {
	var b strings.Builder
	b.WriteString("accounts:\n- id: \"111122223333\"\n  alias: prod\n  credentials: [{accessKeyId: AKIAREACHTEST0000000, secret: reach-secret-of-any-length}]\n" +
		"  quotas: {rulesPerGroup: 200, groupsPerInterface: 5}\n  regions:\n  - name: eu-west-1\n" +
		"    prefixLists:\n    - {name: offices, maxEntries: 5, entries: [198.51.100.0/24 Berlin, 203.0.113.7 Oslo]}\n    vpcs:\n")
	blocks := []string{"any", "10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/25", "198.51.100.0/24", "203.0.113.7/32", "list:offices", "10.1.0.12/32"}
	traffic := []string{"tcp 80", "tcp 22", "tcp 79-443", "udp 53", "all", "icmp", "icmp 8", "tcp 1024-65535"}
	for v := range 3 {
		fmt.Fprintf(&b, "    - name: v%d\n      cidrs: [10.%d.0.0/16]\n      subnets: [{name: s%d, cidr: 10.%d.0.0/24, publicIPs: %v}]\n      groups:\n", v, v+1, v, v+1, v == 0)
		groups := 2 + r.IntN(3)
		for g := range groups {
			rules, sends := "", r.IntN(2) == 0
			for range 1 + r.IntN(4) {
				peer := blocks[r.IntN(len(blocks))]
				if r.IntN(3) == 0 {
					peer = fmt.Sprintf("g%d", r.IntN(groups))
				} else if v < 2 && r.IntN(4) == 0 {
					peer = fmt.Sprintf("v%d/g%d", 1-v, r.IntN(2))
				}
				direction := "from"
				if sends && r.IntN(3) == 0 {
					direction = "to"
				}
				if line := fmt.Sprintf("        - %s %s %s\n", traffic[r.IntN(len(traffic))], direction, peer); !strings.Contains(rules, line) {
					rules += line
				}
			}
			fmt.Fprintf(&b, "      - name: g%d\n        rules:\n%s", g, rules)
			if !sends && r.IntN(3) == 0 {
				b.WriteString("        egress: none\n")
			}
		}
		b.WriteString("      vms:\n")
		some := func() string {
			if r.IntN(3) == 0 && groups > 1 {
				return "[g0, g1]"
			}
			return fmt.Sprintf("[g%d]", r.IntN(groups))
		}
		for m := range 2 + r.IntN(3) {
			app := []string{"web", "db", "job"}[r.IntN(3)]
			if r.IntN(4) == 0 {
				fmt.Fprintf(&b, "      - {name: m%d-%d, tags: {app: %s}, nics: [{subnet: s%d, ip: 10.%d.0.%d, groups: %s}, {subnet: s%d, ip: 10.%d.0.%d, groups: %s}]}\n",
					v, m, app, v, v+1, 10+m, some(), v, v+1, 30+m, some())
				continue
			}
			public := ""
			if v == 0 {
				public = ", public: auto"
			}
			fmt.Fprintf(&b, "      - {name: m%d-%d, subnet: s%d, ip: [10.%d.0.%d, 10.%d.0.%d], groups: %s, tags: {app: %s}%s}\n", v, m, v, v+1, 10+m, v+1, 60+m, some(), app, public)
		}
		fmt.Fprintf(&b, "      nics:\n      - {name: appliance%d, subnet: s%d, ip: 10.%d.0.40, groups: %s, tags: {app: web}}\n", v, v, v+1, some())
		if services {
			fmt.Fprintf(&b, "      - {name: balancer%d, subnet: s%d, ip: 10.%d.0.50, managed: true, groups: %s}\n", v, v, v+1, some())
		}
		fmt.Fprintf(&b, "      services: [{kind: database, name: orders%d, engine: postgres, groups: %s, tags: {app: db}}]\n", v, some())
	}
	b.WriteString("peerings: [{between: [v0, v1]}]\n")
	return b.String()
}

const reachAccount = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: prod, namespace: shop}
spec:
  awsConfig:
    region: [eu-west-1]
    secretRef: {name: s, namespace: shop, key: k}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: all, namespace: shop}
spec: {accountName: prod, accountNamespace: shop, vmSelector: [{vpcMatch: {matchName: v0}}, {vpcMatch: {matchName: v1}}, {vpcMatch: {matchName: v2}}], nativeSelector: [{kind: RDSInstance}], interfaceSelector: [{tagMatch: [{key: app, values: [web]}]}]}
`

// reachPods is a Node that is the first machine of the first VPC, with a Pod that has its second
// address; what the machine has of its own are the same interface.
const reachPods = `
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {addresses: [{type: InternalIP, address: 10.1.0.10}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop, labels: {app: web}}
spec: {nodeName: node-1, containers: [{name: c, image: i}]}
status: {phase: Running, podIP: 10.1.0.60, podIPs: [{ip: 10.1.0.60}]}
`

// randomPolicies draws policies on the machines of an estate, by the tag app.
func randomPolicies(r *rand.Rand) string {
	var b strings.Builder
	app := func() string {
		return fmt.Sprintf("{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: %s}}}", []string{"web", "db", "job"}[r.IntN(3)])
	}
	for i := range 1 + r.IntN(4) {
		fmt.Fprintf(
			&b,
			"---\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: p%d, namespace: shop}\nspec:\n  tier: %s\n  priority: %d\n  appliedTo: [%s]\n",
			i,
			[]string{"emergency", "securityops", "application", "baseline"}[r.IntN(4)],
			1+r.IntN(9),
			app(),
		)
		for _, d := range [][2]string{{"ingress", "from"}, {"egress", "to"}} {
			if r.IntN(2) == 0 {
				continue
			}
			fmt.Fprintf(&b, "  %s:\n", d[0])
			for k := range 1 + r.IntN(3) {
				action := []string{"Allow", "Allow", "Allow", "Drop"}[r.IntN(4)]
				peer := []string{app(), "{ipBlock: {cidr: 10.1.0.0/16}}", "{ipBlock: {cidr: 198.51.100.0/24, except: [198.51.100.128/25]}}", app()}[r.IntN(4)]
				port := []string{"[{port: 80}]", "[{port: 22, endPort: 100}]", "[{protocol: UDP, port: 53}]"}[r.IntN(3)]
				fmt.Fprintf(&b, "  - {name: %s-%d, action: %s, %s: [%s], ports: %s}\n", d[0], k, action, d[1], peer, port)
			}
		}
	}
	return b.String()
}

// livingEstate is an estate in the simulator, with what is known of it.
type livingEstate struct {
	*preview.Planner
	provider cloud.Provider
	server   *sim.Server
	who      *explain.World
	snapshot *cloud.Snapshot
}

func bringToLife(t *testing.T, text, manifests string) *livingEstate {
	t.Helper()
	state := estatetest.Parse(t, text)
	server := simulated(t, state, 0)
	provider, err := aws.New(aws.Config{
		Credential: cloudv1alpha1.AWSCredential{AccessKeyID: "AKIAREACHTEST0000000", AccessKeySecret: "reach-secret-of-any-length"},
		Region:     "eu-west-1", Endpoint: server.URL(), UserAgent: "test",
		Limits: func(string) cloud.Limits {
			return cloud.Limits{RulesPerGroup: 200, GroupsPerInterface: 5, GroupsPerRegion: 2500}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	in, err := preview.LoadInputs([]string{"-"}, strings.NewReader(manifests))
	if err != nil {
		t.Fatalf("%v in\n%s", err, manifests)
	}
	if len(in.Refused) > 0 {
		t.Fatalf("refused %v in\n%s", in.Refused, manifests)
	}
	e := &livingEstate{provider: provider, server: server}
	e.Planner = &preview.Planner{In: in, ClusterID: "test", Lowerers: controller.LowererOf, Open: func(context.Context, *cloudv1alpha1.CloudProviderAccount) (preview.Reader, error) {
		return provider, nil
	}}
	e.look(t)
	return e
}

// look reads the account.
func (e *livingEstate) look(t *testing.T) {
	t.Helper()
	o, err := e.Observe(t.Context(), e.In.Objects.Accounts[0])
	if err != nil {
		t.Fatal(err)
	}
	e.In.ImportEntities(e.In.Objects.Accounts[0], o)
	e.snapshot = o.Regions[0].Snapshot
	e.In.KnowClouds(preview.ObservedAccounts{o})
	e.who = preview.Compute(e.In).Computed.World(false)
}

// party is an end of a flow, as reach and as the simulator know it.
type party struct {
	packet.End
	endpoint *reach.Endpoint
}

// parties are all ends of an estate, and some addresses outside.
func (e *livingEstate) parties() []party {
	var out []party
	for i := range e.who.Endpoints {
		p := &e.who.Endpoints[i]
		if p.Interface == "" {
			continue // the Pod, where the machine has no second address
		}
		for _, a := range p.Addresses {
			out = append(out, party{packet.End{NIC: p.Interface, Addr: a}, p})
		}
	}
	for _, a := range []string{"198.51.100.9", "198.51.100.200", "203.0.113.7", "192.0.2.1", "10.9.9.9", "10.2.0.100"} {
		out = append(out, party{End: packet.End{Addr: netip.MustParseAddr(a)}})
	}
	return out
}

// compare asks the simulator about every flow between two ends, and compares with what reach tells.
// It returns how many pass and how many do not.
func (e *livingEstate) compare(t *testing.T, what string) (passed, stopped int) {
	t.Helper()
	flows := e.who.Reach(reach.Question{From: reach.Everybody(), To: reach.Everybody(), Refused: true})
	ends := e.parties()
	for _, from := range ends {
		for _, to := range ends {
			switch {
			case from.endpoint == nil && to.endpoint == nil, from.NIC != "" && from.NIC == to.NIC:
				continue
			case withinMachine(from.endpoint, to.endpoint):
				continue // a Pod and its own machine
			case (from.endpoint != nil && from.endpoint.Public) != (to.endpoint != nil && to.endpoint.Public):
				continue // private addresses stand for public ones there
			}
			src, dst := from.End, to.End
			if src.NIC == "" {
				src.VPC = e.network(to.NIC)
			}
			if dst.NIC == "" {
				dst.VPC = e.network(from.NIC)
			}
			for _, s := range [][2]int{{6, 22}, {6, 80}, {6, 101}, {6, 5432}, {17, 53}, {17, 54}, {1, 8 << 8}, {1, 0}} {
				v, err := e.server.World().Allowed(packet.Flow{Src: src, Dst: dst, Protocol: s[0], Port: s[1], ICMPType: s[1] >> 8, ICMPCode: s[1] & 0xff})
				if err != nil {
					t.Fatal(err)
				}
				var told []reach.Flows
				for _, f := range flows {
					if f.Holds(from.endpoint, to.endpoint, from.Addr, to.Addr, reach.Service(s[0], s[1])) {
						told = append(told, f)
					}
				}
				if len(told) != 1 {
					t.Fatalf("%s: %v to %v, %v: told %d times: %+v", what, from, to, s, len(told), told)
				}
				if got := told[0].Outcome.Passes(); got != v.Allowed || told[0].Outcome == reach.Native {
					t.Fatalf("%s: %v to %v, %v: told %s (%+v, %+v), the simulator says %s", what, from.End, to.End, s, told[0].Outcome, told[0].Egress, told[0].Ingress, v.Reason)
				}
				if v.Allowed {
					passed++
				} else {
					stopped++
				}
			}
		}
	}
	return passed, stopped
}

// withinMachine reports whether packets stay on a machine. The simulator knows of no Pods, and
// takes them to another interface.
func withinMachine(from, to *reach.Endpoint) bool {
	return from != nil && to != nil && from.Machine == to.Machine && (from.Behind != nil || to.Behind != nil)
}

func (e *livingEstate) network(nic string) string {
	for i := range e.snapshot.Interfaces {
		if e.snapshot.Interfaces[i].ID == nic {
			return e.snapshot.Interfaces[i].NetworkID
		}
	}
	return ""
}

// TestReachIsWhatTheCloudDoes: on random accounts without policies, reach with a snapshot says of
// every flow what the simulator says.
func TestReachIsWhatTheCloudDoes(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 31))
		e := bringToLife(t, randomEstate(r, true), reachAccount+reachPods)
		passed, stopped := e.compare(t, fmt.Sprint("seed ", seed))
		t.Logf("seed %d: %d flows pass, %d do not", seed, passed, stopped)
		if passed == 0 || stopped == 0 {
			t.Errorf("seed %d: %d flows pass and %d do not: want some of both", seed, passed, stopped)
		}
	}
}

// TestReachIsWhatEnforcementLeadsTo: on random accounts with policies, reach says beforehand of
// every flow what the simulator says when the policies are enforced, and says the same afterwards.
func TestReachIsWhatEnforcementLeadsTo(t *testing.T) {
	enforced := 0
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 32))
		e := bringToLife(t, randomEstate(r, false), reachAccount+reachPods+randomPolicies(r))
		planned, err := e.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if refused := planned.Accounts[0].Result.Refusals; len(refused) > 0 {
			t.Logf("seed %d: refused: %v", seed, refused)
			continue
		}
		perform(t, e.provider, e.Planner)
		passed, stopped := e.compare(t, fmt.Sprint("seed ", seed))
		e.look(t) // what is under our control now had groups of its own, which are known
		e.compare(t, fmt.Sprint("seed ", seed, ", read again"))
		enforced++
		t.Logf("seed %d: %d flows pass, %d do not", seed, passed, stopped)
	}
	if enforced < 5 {
		t.Errorf("only %d of 8 worlds were enforced in full", enforced)
	}
}

// TestReachWithoutSnapshotSaysNative guards the two tests above: reach without the snapshot does
// not know what the groups decide.
func TestReachWithoutSnapshotSaysNative(t *testing.T) {
	e := bringToLife(t, randomEstate(rand.New(rand.NewPCG(1, 31)), true), reachAccount)
	e.In.Objects.Observed = nil
	w := preview.Compute(e.In).Computed.World(false)
	flows := w.Reach(reach.Question{From: reach.Everybody(), To: reach.Everybody(), Refused: true})
	if len(flows) == 0 || slices.ContainsFunc(flows, func(f reach.Flows) bool { return f.Outcome != reach.Native }) {
		t.Errorf("%d flows, want all Native", len(flows))
	}
}
