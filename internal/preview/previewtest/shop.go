package previewtest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
)

// RandomShop draws an account with two peered VPCs and one alone, groups that refer to blocks and
// to one another, machines with one or two interfaces, some with public addresses or with one more
// for a Pod, and in each VPC a database, an interface of no machine, and if asked for one of a
// service that no API lists.
func RandomShop(r *rand.Rand, services bool) string {
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

// ShopAccount imports the machines, databases and some interfaces of a RandomShop.
const ShopAccount = `
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
spec:
  accountName: prod
  accountNamespace: shop
  vmSelector: [{vpcMatch: {matchName: v0}}, {vpcMatch: {matchName: v1}}, {vpcMatch: {matchName: v2}}]
  nativeSelector: [{kind: RDSInstance}]
  interfaceSelector: [{tagMatch: [{key: app, values: [web]}]}]
`

// RandomPolicies draws policies on the machines of an estate, by the tag app.
func RandomPolicies(r *rand.Rand) string {
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

// Shop is a RandomShop in the simulator, with what is known of it.
type Shop struct {
	*preview.Planner
	Provider cloud.Provider
	Server   *sim.Server
	World    *explain.World
	Snapshot *cloud.Snapshot
}

// Open starts the simulator for the description of a shop, until the test ends, and reads it for
// the manifests.
func Open(t testing.TB, text, manifests string) *Shop {
	t.Helper()
	server := Simulated(t, estatetest.Parse(t, text), 0)
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
	s := &Shop{Planner: Planner(t, provider, manifests), Provider: provider, Server: server}
	s.Look(t)
	return s
}

// Look reads the account.
func (s *Shop) Look(t testing.TB) {
	t.Helper()
	o, err := s.Observe(t.Context(), s.In.Objects.Accounts[0])
	if err != nil {
		t.Fatal(err)
	}
	s.In.ImportEntities(s.In.Objects.Accounts[0], o)
	s.Snapshot = o.Regions[0].Snapshot
	s.In.KnowClouds(preview.ObservedAccounts{o})
	s.World = preview.Compute(s.In).Computed.World(false)
}

// Site is an end of a flow, as reach and as the simulator know it.
type Site struct {
	packet.End
	Endpoint *reach.Endpoint
}

// Sites are all ends of an estate, and some addresses outside.
func (s *Shop) Sites() []Site {
	var out []Site
	for i := range s.World.Endpoints {
		p := &s.World.Endpoints[i]
		if p.Interface == "" {
			continue // the Pod, where the machine has no second address
		}
		for _, a := range p.Addresses {
			out = append(out, Site{packet.End{NIC: p.Interface, Addr: a}, p})
		}
	}
	for _, a := range []string{"198.51.100.9", "198.51.100.200", "203.0.113.7", "192.0.2.1", "10.9.9.9", "10.2.0.100"} {
		out = append(out, Site{End: packet.End{Addr: netip.MustParseAddr(a)}})
	}
	return out
}

// Compare asks the simulator about every flow between two ends, and compares with what reach says.
// It returns how many pass and how many do not.
func (s *Shop) Compare(t testing.TB, what string) (passed, stopped int) {
	t.Helper()
	flows := s.World.Reach(reach.Question{From: reach.Everybody(), To: reach.Everybody(), Refused: true})
	ends := s.Sites()
	for _, from := range ends {
		for _, to := range ends {
			switch {
			case from.Endpoint == nil && to.Endpoint == nil, from.NIC != "" && from.NIC == to.NIC:
				continue
			case withinMachine(from.Endpoint, to.Endpoint):
				continue // a Pod and its own machine
			case (from.Endpoint != nil && from.Endpoint.Public) != (to.Endpoint != nil && to.Endpoint.Public):
				continue // the simulator is asked about private addresses only
			}
			src, dst := from.End, to.End
			if src.NIC == "" {
				src.VPC = s.Network(to.NIC)
			}
			if dst.NIC == "" {
				dst.VPC = s.Network(from.NIC)
			}
			for _, service := range [][2]int{{6, 22}, {6, 80}, {6, 101}, {6, 5432}, {17, 53}, {17, 54}, {1, 8 << 8}, {1, 0}} {
				v, err := s.Server.World().Allowed(packet.Flow{Src: src, Dst: dst, Protocol: service[0], Port: service[1], ICMPType: service[1] >> 8, ICMPCode: service[1] & 0xff})
				if err != nil {
					t.Fatal(err)
				}
				var found []reach.Flows
				for _, f := range flows {
					if f.Holds(from.Endpoint, to.Endpoint, from.Addr, to.Addr, reach.Service(service[0], service[1])) {
						found = append(found, f)
					}
				}
				if len(found) != 1 {
					t.Fatalf("%s: %v to %v, %v: found %d times: %+v", what, from, to, service, len(found), found)
				}
				if got := found[0].Outcome.Passes(); got != v.Allowed || found[0].Outcome == reach.Native {
					t.Fatalf("%s: %v to %v, %v: reach says %s (%+v, %+v), the simulator says %s", what, from.End, to.End, service, found[0].Outcome, found[0].Egress, found[0].Ingress, v.Reason)
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

// Network is the network of an interface; empty if there is no such interface.
func (s *Shop) Network(nic string) string {
	for i := range s.Snapshot.Interfaces {
		if s.Snapshot.Interfaces[i].ID == nic {
			return s.Snapshot.Interfaces[i].NetworkID
		}
	}
	return ""
}
