package realize

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/policy"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/tier"
)

var (
	tagWorlds = flag.Int("tag-worlds", 0, "how many random histories of VMs whose groups name service tags are lived; 0 means 2, and 10 in make test-long")
	tagSeed   = flag.Uint64("tag-seed", 11, "with which seed")
)

// serviceTags are the addresses of services, which nobody knows but the simulator. As with Azure's
// own, none is the private address of a VM.
func serviceTags() map[string][]netip.Prefix {
	return map[string][]netip.Prefix{
		"storage": {netip.MustParsePrefix("198.51.100.0/25"), netip.MustParsePrefix("10.7.0.0/16")},
		"sql":     {netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("198.51.100.0/28")},
	}
}

// taggedGroup is a random network security group that can be taken over: Denies of addresses, and
// Allows of service tags, among others.
func taggedGroup(r *rand.Rand) []map[string]any {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	var out []map[string]any
	for i := range 2 + r.IntN(5) {
		access, peer := "Allow", pick("Storage", "Sql", "Storage", "VirtualNetwork", "10.1.0.0/16", "198.51.100.0/24", "*")
		if r.IntN(3) == 0 {
			access, peer = "Deny", pick("10.1.1.0/24", "10.2.0.0/16", "198.51.100.0/24", "203.0.113.7", "10.1.2.0/24")
		}
		direction, source, destination := "Inbound", peer, "*"
		if r.IntN(3) == 0 {
			direction, source, destination = "Outbound", "*", peer
		}
		rule := build.Rule(fmt.Sprintf("r%d", i), direction, 100+i, access, pick("Tcp", "Tcp", "*"), source, destination, "")
		if p := rule["properties"].(map[string]any); p["protocol"] == "Tcp" {
			p["destinationPortRange"] = pick("*", "22", "80-443", "5432", "80")
		}
		out = append(out, rule)
	}
	// The rest of the direction, so that tags matter.
	return append(out, build.Rule("in-rest", "Inbound", 300, "Deny", "", "", "", ""), build.Rule("out-rest", "Outbound", 300, pick("Deny", "Allow"), "", "", "", ""))
}

// takingPolicy takes something out of what the VMs' own groups allow.
func takingPolicy(r *rand.Rand, i int) policy.Policy {
	p := randomPolicy(r, i)
	for _, rules := range [][]policy.Rule{p.Ingress, p.Egress} {
		for k := range rules {
			if rules[k].Action == policy.Allow && r.IntN(5) > 0 {
				rules[k].Action = policy.Drop
			}
		}
	}
	return p
}

// TestAzureServiceTags lives random histories of VMs whose own groups allow service tags, of which
// policies take something out: after every event the simulator's verdict is exactly the
// evaluator's, after every call it is in between, and in the end everything is as it was.
func TestAzureServiceTags(t *testing.T) {
	t.Parallel()
	for i := range cmp.Or(*tagWorlds, tier.Pick(1, 2, 10)) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			t.Logf("-tag-seed %d, world %d", *tagSeed, i)
			r := rand.New(rand.NewPCG(*tagSeed, uint64(i)))
			l := newAzureLab(t, azureConfig{more: func(b *build.Builder) {
				b.State.ServiceTags = serviceTags()
				for i := range b.State.Resources {
					if res := &b.State.Resources[i]; strings.HasSuffix(res.ID, "-nic") {
						res.Properties["networkSecurityGroup"] = map[string]any{"id": b.SecurityGroup("shop", fmt.Sprintf("own-%d", i), taggedGroup(r)...)}
					}
				}
			}})
			var events []event
			var in []policy.Policy
			for step := range 6 {
				p := takingPolicy(r, step)
				if len(in) > 0 && r.IntN(2) == 0 {
					old := in[r.IntN(len(in))]
					p.Name, p.UID, p.Generation = old.Name, old.UID, int64(step+1)
				} else {
					in = append(in, p)
				}
				events = append(events, event{name: fmt.Sprint(step), do: func(l *lab) { l.engine.PutPolicy(p) }})
			}
			for _, p := range in {
				events = append(events, event{name: "without " + p.Name, do: func(l *lab) { l.engine.DeletePolicy(p.UID) }})
			}
			l.live(events)
		})
	}
}

// TestAzureDenyBeforeTag: what a policy drops of what a group allows by a service tag is a Deny
// before the tag, and the rest of the tag stays as it is, whatever addresses it has or will have.
func TestAzureDenyBeforeTag(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{more: func(b *build.Builder) {
		b.State.ServiceTags = serviceTags()
		group := b.SecurityGroup("shop", "tagged", build.Rule("storage", "Inbound", 100, "Allow", "Tcp", "Storage", "", "443"), build.Rule("rest", "Inbound", 200, "Deny", "", "", "", ""))
		b.Machine("shop", "api-1", azureVNet+"/subnets/web", "10.1.1.71", group)
	}})
	l.publish()
	l.start()
	p := clusterPolicy("no-branch", 1, 5)
	p.AppliedTo = applied("api")
	p.Ingress = []policy.Rule{{Action: policy.Drop, Peers: block("198.51.100.0/30"), Ports: ports(443)}, {Action: policy.Drop, Peers: from("ops")}}
	l.engine.PutPolicy(p)
	l.publish()
	l.settle()
	var order []string
	var passes, cut bool
	l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		for _, res := range c.State().Resources {
			if !strings.Contains(strings.ToLower(res.ID), "/networksecuritygroups/nephele-") {
				continue
			}
			for _, rule := range res.Properties["securityRules"].([]any) {
				if p := rule.(map[string]any)["properties"].(map[string]any); p["direction"] == "Inbound" {
					order = append(order, fmt.Sprint(p["access"], " ", p["sourceAddressPrefix"], p["sourceAddressPrefixes"]))
				}
			}
		}
		for addr, to := range map[string]*bool{"198.51.100.9": &passes, "198.51.100.1": &cut} {
			v, err := c.Verdicts().Allowed(simazure.Flow{Src: simazure.End{Addr: netip.MustParseAddr(addr)}, Dst: simazure.End{NIC: l.vms["api-1"].nic}, Protocol: 6, Port: 443})
			if err != nil {
				t.Fatal(err)
			}
			*to = v.Allowed
		}
	})
	if !passes || cut {
		t.Errorf("the rest of the tag passes: %t, what is dropped: %t\n%s", passes, cut, strings.Join(order, "\n"))
	}
	allow := slices.IndexFunc(order, func(s string) bool { return strings.HasPrefix(s, "Allow Storage") })
	if allow < 1 || !strings.HasPrefix(order[allow-1], "Deny ") {
		t.Errorf("the rules are not a Deny and then the tag:\n%s", strings.Join(order, "\n"))
	}
	r, _ := l.realizer.Report(labAccount)
	if text := fmt.Sprintf("%+v", r.Result); strings.Contains(text, "left out") {
		t.Errorf("something is said to be left out: %s", text)
	}
}
