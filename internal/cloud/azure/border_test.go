package azure_test

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

// onSubnets gives subnets network security groups.
func onSubnets(b *build.Builder, groups map[string]string) {
	for i := range b.State.Resources {
		if res := &b.State.Resources[i]; strings.HasSuffix(res.ID, "/vnet-a") {
			for _, s := range res.Properties["subnets"].([]any) {
				subnet := s.(map[string]any)
				if group := groups[subnet["name"].(string)]; group != "" {
					subnet["properties"].(map[string]any)["networkSecurityGroup"] = map[string]any{"id": group}
				}
			}
		}
	}
}

// TestSubnetGroupsAreWhatTheCloudDecides follows packets through random network security groups of
// subnets and interfaces, and compares what is told of them with the simulator's verdict, and the
// group that it names. What is not sure is not told as sure.
func TestSubnetGroupsAreWhatTheCloudDecides(t *testing.T) {
	t.Parallel()
	stopped, unsure := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(11, seed))
		l := newLab(t, func(b *build.Builder) {
			var asgs []string
			for _, res := range b.State.Resources {
				if strings.HasSuffix(res.ID, "asg-web") {
					asgs = append(asgs, res.ID)
				}
			}
			asgs = append(asgs, b.ApplicationGroup("shop", "asg-none"))
			if seed%2 == 1 {
				randomLeads(r, b)
			}
			groups := map[string]string{"web": b.SecurityGroup("shop", "subnet-web", randomRules(r, asgs)...)}
			if r.IntN(2) == 0 {
				groups["db"] = b.SecurityGroup("shop", "subnet-db", randomRules(r, asgs)...)
			}
			onSubnets(b, groups)
			if r.IntN(2) == 0 { // two in one subnet, where it is asked as well
				for i := range b.State.Resources {
					if res := &b.State.Resources[i]; strings.HasSuffix(res.ID, "/db-1-nic") {
						c := res.Properties["ipConfigurations"].([]any)[0].(map[string]any)["properties"].(map[string]any)
						c["subnet"] = map[string]any{"id": l0vnet(b) + "/subnets/web"}
						c["privateIPAddress"] = "10.1.1.5"
					}
				}
			}
		})
		s := l.observe(l.account())
		seen, borders := trace.New([]*cloud.Snapshot{s}), trace.BordersOf(s.ACLs)
		ends := []simazure.End{{NIC: l.webNIC}, {NIC: l.dbNIC}, {Addr: netip.MustParseAddr("192.0.2.1")}, {Addr: netip.MustParseAddr("10.2.1.9")},
			{Addr: netip.MustParseAddr("192.168.50.7")}, {Addr: netip.MustParseAddr("172.16.3.3")}, {Addr: netip.MustParseAddr("203.0.113.5")}}
		for i, from := range ends {
			for k, to := range ends {
				if i == k || i > 1 && k > 1 {
					continue
				}
				for _, x := range [][2]int{{6, 22}, {6, 80}, {6, 100}, {6, 9}, {17, 80}, {1, 8}, {50, 0}} {
					var v simazure.Verdict
					var err error
					l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
						v, err = c.Verdicts().Allowed(simazure.Flow{Src: from, Dst: to, Protocol: x[0], Port: x[1]})
					})
					if err != nil {
						t.Fatal(err)
					}
					allowed, sure, by := told(seen, borders, pointOf(seen, s, from), pointOf(seen, s, to), x)
					if !sure {
						unsure++
						continue
					}
					if allowed != v.Allowed {
						t.Fatalf("seed %d: %v from %+v to %+v: the cloud says %v (%s), told is %v by %v", seed, x, from, to, v.Allowed, v.Reason, allowed, by)
					}
					if allowed {
						continue
					}
					last := v.Steps[len(v.Steps)-1]
					if !strings.Contains(strings.ToLower(last.Group), "subnet") {
						continue // the group of an interface says no, too
					}
					if by == nil || by.Entry.Name != last.Rule || !strings.EqualFold(by.ACL.ID, last.Group) {
						t.Fatalf("seed %d: %v from %+v to %+v: stopped by %s of %s, and told is %+v", seed, x, from, to, last.Rule, last.Group, by)
					}
					stopped++
				}
			}
		}
	}
	if stopped < 150 {
		t.Errorf("only %d packets are stopped at subnets", stopped)
	}
	t.Logf("%d stopped at subnets, %d not sure", stopped, unsure)
}

func pointOf(c *trace.Cloud, s *cloud.Snapshot, e simazure.End) trace.Point {
	if e.NIC == "" {
		return c.At(e.Addr, s.Networks[0].ID)
	}
	for i := range s.Interfaces {
		if strings.EqualFold(s.Interfaces[i].ID, e.NIC) {
			return c.At(s.Interfaces[i].PrivateIPs[0], s.Interfaces[i].NetworkID)
		}
	}
	return trace.Point{}
}

// told is what the snapshot says of a packet, and what stops it at a subnet.
func told(c *trace.Cloud, b trace.Borders, src, dst trace.Point, x [2]int) (allowed, sure bool, by *trace.Crossing) {
	s := flow.Service{Protocol: x[0], From: uint16(x[1]), To: uint16(x[1])}
	if x[0] == cloud.ICMP {
		s.From, s.To = uint16(x[1])<<8, uint16(x[1])<<8
	} else if x[0] != cloud.TCP && x[0] != cloud.UDP {
		s = flow.Whole(x[0])
	}
	p := c.Follow(src, dst, s)
	allowed, sure = true, true
	for _, f := range []*trace.Filter{p.Egress, p.Ingress} {
		switch {
		case f == nil:
		case f.Interface.Untouchable != "" || f.Uncertain:
			sure = false
		case !f.Allowed:
			allowed = false
		}
	}
	for _, y := range b.Crosses(src, dst, p, s) {
		switch {
		case y.Unsure:
			sure = false
		case !y.Allowed:
			return false, true, &y
		}
	}
	return allowed, sure, by
}
