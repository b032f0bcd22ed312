package packet

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// scene is two VPCs that are peered within a region. The first has a web server in subnet-a and a
// database in subnet-b, the second one client.
type scene struct {
	d        aws.Resources
	peerings map[string]*aws.PeeringConnection
	effects  *effect.Log
}

func block(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func rule(id, protocol string, from, to int32) aws.SecurityGroupRule {
	return aws.SecurityGroupRule{ID: id, Protocol: protocol, FromPort: from, ToPort: to}
}

func from(r aws.SecurityGroupRule, cidr string) aws.SecurityGroupRule {
	r.CIDR = block(cidr)
	return r
}

func fromGroup(r aws.SecurityGroupRule, id string) aws.SecurityGroupRule {
	r.Group = &aws.GroupPeer{GroupID: id}
	return r
}

func out(r aws.SecurityGroupRule) aws.SecurityGroupRule {
	r.Egress = true
	return r
}

func newScene() *scene {
	s := &scene{d: aws.NewResources(), peerings: map[string]*aws.PeeringConnection{}}
	for id, cidr := range map[string]string{"vpc-1": "10.0.0.0/16", "vpc-2": "10.1.0.0/16"} {
		s.d.VPCs[id] = &aws.VPC{ID: id, CIDRs: []aws.CIDRBlock{{Prefix: block(cidr)}}}
	}
	for id, of := range map[string][2]string{"subnet-a": {"vpc-1", "10.0.1.0/24"}, "subnet-b": {"vpc-1", "10.0.2.0/24"}, "subnet-c": {"vpc-2", "10.1.1.0/24"}} {
		s.d.Subnets[id] = &aws.Subnet{ID: id, VPCID: of[0], CIDR: block(of[1])}
	}
	s.d.PrefixLists["pl-office"] = &aws.PrefixList{ID: "pl-office", Versions: [][]aws.PrefixListEntry{{{CIDR: block("198.51.100.0/24")}}}}
	office := rule("sgr-office", "tcp", 22, 22)
	office.PrefixListID = "pl-office"
	everything := out(from(rule("sgr-out", aws.AllProtocols, -1, -1), "0.0.0.0/0"))
	s.group("sg-web", "vpc-1", everything, from(rule("sgr-https", "tcp", 443, 443), "0.0.0.0/0"), from(rule("sgr-https6", "tcp", 443, 443), "::/0"),
		from(rule("sgr-ping", "icmp", 8, -1), "203.0.113.0/24"), office, out(from(rule("sgr-out6", aws.AllProtocols, -1, -1), "::/0")))
	s.group("sg-db", "vpc-1", fromGroup(rule("sgr-sql", "tcp", 5432, 5433), "sg-web"), fromGroup(rule("sgr-far", "tcp", 5432, 5432), "sg-client"))
	s.group("sg-client", "vpc-2", everything)
	s.nic("eni-web", "vpc-1", "subnet-a", "sg-web", aws.PrivateIP{Addr: addr("10.0.1.10"), Primary: true, Public: addr("198.18.0.1")})
	s.d.NICs["eni-web"].IPv6 = []netip.Addr{addr("2001:db8::10")}
	s.nic("eni-db", "vpc-1", "subnet-b", "sg-db", aws.PrivateIP{Addr: addr("10.0.2.20"), Primary: true, Public: addr("198.18.0.2")})
	s.nic("eni-client", "vpc-2", "subnet-c", "sg-client", aws.PrivateIP{Addr: addr("10.1.1.30"), Primary: true})
	s.peerings["pcx-1"] = &aws.PeeringConnection{
		ID: "pcx-1", Status: aws.PeeringActive, Requester: aws.PeeringVPC{VPCID: "vpc-1", Region: "r"}, Accepter: aws.PeeringVPC{VPCID: "vpc-2", Region: "r"},
	}
	return s
}

func (s *scene) group(id, vpc string, rules ...aws.SecurityGroupRule) {
	s.d.Groups[id] = &aws.SecurityGroup{ID: id, VPCID: vpc, Name: id, Rules: rules}
}

func (s *scene) nic(id, vpc, subnet, group string, ip aws.PrivateIP) {
	s.d.NICs[id] = &aws.NetworkInterface{
		ID: id, VPCID: vpc, SubnetID: subnet, InterfaceType: "interface", PrivateIPs: []aws.PrivateIP{ip}, Groups: []aws.GroupName{{ID: group, Name: group}},
	}
}

// table is a route table of subnet-a.
func (s *scene) table(routes ...aws.Route) {
	s.d.Tables["rtb-a"] = &aws.RouteTable{ID: "rtb-a", VPCID: "vpc-1", Associations: []aws.SubnetAssociation{{SubnetID: "subnet-a"}}, Routes: routes}
}

// acl is a network ACL of subnet-b.
func (s *scene) acl(entries ...aws.ACLEntry) {
	s.d.ACLs["acl-b"] = &aws.NetworkACL{ID: "acl-b", VPCID: "vpc-1", Associations: []aws.SubnetAssociation{{SubnetID: "subnet-b"}}, Entries: entries}
}

func (s *scene) judge() *Judge { return New([]*aws.Resources{&s.d}, s.peerings, s.effects) }

// end is "eni-..." or an address.
func end(of string) End {
	if strings.HasPrefix(of, "eni-") {
		return End{NIC: of}
	}
	return End{Addr: addr(of)}
}

func tcp(src, dst string, port int) Flow {
	return Flow{Src: end(src), Dst: end(dst), Protocol: aws.ProtoTCP, Port: port}
}

func ping(src, dst string, icmpType int) Flow {
	return Flow{Src: end(src), Dst: end(dst), Protocol: aws.ProtoICMP, ICMPType: icmpType}
}

// TestVerdict goes through what a packet meets, one thing at a time. A verdict that allows has the
// ingress rule that did it as its reason; one that denies has these words in it.
func TestVerdict(t *testing.T) {
	sql := tcp("eni-web", "eni-db", 5432)
	allow := func(n int, egress bool, from, to int) aws.ACLEntry {
		return aws.ACLEntry{Number: n, Egress: egress, Protocol: aws.ProtoTCP, Allow: true, CIDR: block("0.0.0.0/0"), FromPort: from, ToPort: to}
	}
	for _, c := range []struct {
		name  string
		set   func(*scene)
		flow  Flow
		allow string // the rule
		deny  string // words
	}{
		{"a rule with a block", nil, tcp("203.0.113.5", "eni-web", 443), "sgr-https", ""},
		{"another port", nil, tcp("203.0.113.5", "eni-web", 80), "", "ingress of eni-web: no rule of sg-web (sg-web) allows tcp 80 from 203.0.113.5"},
		{"another protocol", nil, Flow{Src: end("203.0.113.5"), Dst: end("eni-web"), Protocol: aws.ProtoUDP, Port: 443}, "", "allows udp 443"},
		{"IPv6", nil, tcp("2001:db8:1::5", "eni-web", 443), "sgr-https6", ""},
		{"an ICMP type", nil, ping("203.0.113.5", "eni-web", 8), "sgr-ping", ""},
		{"another ICMP type", nil, ping("203.0.113.5", "eni-web", 13), "", "icmp 13/0"},
		{"outside the block", nil, ping("192.0.2.5", "eni-web", 8), "", "icmp 8/0 from 192.0.2.5"},
		{"an entry of a prefix list", nil, tcp("198.51.100.7", "eni-web", 22), "sgr-office", ""},
		{"no entry of a prefix list", nil, tcp("203.0.113.5", "eni-web", 22), "", "no rule of sg-web"},
		{"a group", nil, sql, "sgr-sql", ""},
		{"the last port of a range", nil, tcp("eni-web", "eni-db", 5433), "sgr-sql", ""},
		{"a group, by private addresses", nil, Flow{Src: End{Addr: addr("10.0.1.10"), VPC: "vpc-1"}, Dst: end("10.0.2.20"), Protocol: aws.ProtoTCP, Port: 5432}, "sgr-sql", ""},
		{"a group, by the public address", nil, tcp("eni-web", "198.18.0.2", 5432), "", "from eni-web (198.18.0.1)"},
		{"no egress rule", nil, tcp("eni-db", "eni-web", 443), "", "egress of eni-db: no rule of sg-db (sg-db) allows tcp 443 to eni-web (10.0.1.10)"},
		{"to itself", func(s *scene) { s.d.Groups["sg-db"].Rules = nil }, tcp("eni-db", "10.0.2.20", 1), "-", ""},
		{"an interface that nothing filters", func(s *scene) {
			n := s.d.NICs["eni-db"]
			n.InterfaceType, n.Groups = "nat_gateway", nil
		}, tcp("eni-web", "eni-db", 1), "-", ""},
		{"a group across a peering", nil, tcp("eni-client", "eni-db", 5432), "sgr-far", ""},
		{"an address across a peering", nil, tcp("10.1.1.30", "eni-db", 5432), "sgr-far", ""},
		{"a group across a peering that ended", func(s *scene) { s.peerings["pcx-1"].Status = "deleted" }, tcp("eni-client", "eni-db", 5432), "", "no rule of sg-db"},
		{"a group across regions", func(s *scene) { s.peerings["pcx-1"].Accepter.Region = "other" }, tcp("eni-client", "eni-db", 5432), "", "no rule of sg-db"},
		{"a rule of a group that is gone", func(s *scene) { s.d.NICs["eni-web"].Groups = []aws.GroupName{{ID: "sg-gone"}} }, sql, "", "egress of eni-web"},
		{"a delegated block", func(s *scene) { s.d.NICs["eni-web"].Prefixes = []netip.Prefix{block("10.0.1.64/28")} }, tcp("10.0.1.70", "eni-db", 5432), "sgr-sql", ""},

		{"routes within the VPC need no entry", func(s *scene) { s.table() }, sql, "sgr-sql", ""},
		{"no route", func(s *scene) { s.table() }, tcp("203.0.113.5", "eni-web", 443), "", "route table rtb-a of subnet-a has no route to 203.0.113.5"},
		{"a default route", func(s *scene) { s.table(aws.Route{Destination: block("0.0.0.0/0"), Target: "igw-1"}) }, tcp("203.0.113.5", "eni-web", 443), "sgr-https", ""},
		{"a black hole", func(s *scene) {
			s.table(aws.Route{Destination: block("0.0.0.0/0"), Target: "igw-1"}, aws.Route{Destination: block("203.0.113.0/24"), Target: "vgw-1", State: aws.RouteBlackhole})
		}, tcp("203.0.113.5", "eni-web", 443), "", "the route of rtb-a to 203.0.113.0/24 is a black hole: vgw-1"},
		{"the peer by the internet gateway", func(s *scene) {
			s.table(aws.Route{Destination: block("0.0.0.0/0"), Target: "igw-1"})
			s.d.Groups["sg-web"].Rules = append(s.d.Groups["sg-web"].Rules, from(rule("sgr-all", aws.AllProtocols, -1, -1), "0.0.0.0/0"))
		}, tcp("eni-client", "eni-web", 1), "", "sends 10.1.1.30 through igw-1, which leads to the internet"},
		{"the peer by its connection", func(s *scene) { s.table(aws.Route{Destination: block("10.1.0.0/16"), Target: "pcx-1"}) }, tcp("eni-client", "eni-web", 443), "sgr-https", ""},
		{"beyond the peer", func(s *scene) { s.table(aws.Route{Destination: block("0.0.0.0/0"), Target: "pcx-1"}) }, tcp("203.0.113.5", "eni-web", 443), "",
			"sends 203.0.113.5 through pcx-1, which leads to vpc-2"},
		{"a route by prefix list", func(s *scene) { s.table(aws.Route{PrefixListID: "pl-office", Target: "igw-1"}) }, tcp("198.51.100.7", "eni-web", 443), "sgr-https", ""},

		{"an ACL without entries", func(s *scene) { s.acl() }, sql, "", "entry * of network ACL acl-b of subnet-b denies tcp 5432 from 10.0.1.10"},
		{"an ACL that denies the answer", func(s *scene) { s.acl(allow(100, false, 0, 65535)) }, sql, "", "denies the answer to 10.0.1.10"},
		{"an ACL that lets both through", func(s *scene) { s.acl(allow(100, false, 5432, 5432), allow(100, true, 49152, 49152)) }, sql, "sgr-sql", ""},
		{"the first entry decides", func(s *scene) {
			deny := allow(90, false, 0, 65535)
			deny.Allow = false
			s.acl(allow(100, false, 0, 65535), allow(100, true, 0, 65535), deny)
		}, sql, "", "entry 90 of network ACL acl-b"},
		{"within the subnet no ACL is asked", func(s *scene) {
			s.acl()
			s.d.NICs["eni-web"].SubnetID = "subnet-b"
		}, sql, "sgr-sql", ""},
		{"an ACL that nothing has written", func(s *scene) {
			s.acl()
			s.d.ACLs["acl-b"].Implied = true
		}, sql, "sgr-sql", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene()
			if c.set != nil {
				c.set(s)
			}
			x := s.judge()
			v, err := x.Allowed(c.flow)
			if err != nil {
				t.Fatal(err)
			}
			if passes, err := x.Passes(c.flow); err != nil || passes != v.Allowed {
				t.Errorf("Passes says %t (%v), Allowed %t", passes, err, v.Allowed)
			}
			if v.Allowed != (c.allow != "") {
				t.Fatalf("allowed %t: %s", v.Allowed, v.Reason)
			}
			if c.allow != "" && c.allow != "-" && v.Ingress.RuleID != c.allow {
				t.Errorf("rule %s, want %s: %s", v.Ingress.RuleID, c.allow, v.Reason)
			}
			if !strings.Contains(v.Reason, c.deny) {
				t.Errorf("reason %q, want %q in it", v.Reason, c.deny)
			}
		})
	}
}

// TestStoppedBy: a flow log names the interface and the direction at which an ACL stops a flow.
func TestStoppedBy(t *testing.T) {
	s := newScene()
	s.acl(aws.ACLEntry{Number: 100, Protocol: aws.ProtoICMP, Allow: true, CIDR: block("0.0.0.0/0"), FromPort: -1, ToPort: -1})
	s.d.Groups["sg-db"].Rules = []aws.SecurityGroupRule{from(rule("sgr-icmp", "icmp", -1, -1), "0.0.0.0/0")}
	for icmpType, want := range map[int]Filter{8: {NIC: "eni-db", Egress: true, Answer: true}, 13: {}} { // what is no echo has no answer
		if v, err := s.judge().Allowed(ping("eni-web", "eni-db", icmpType)); err != nil || v.StoppedBy != want || v.Allowed != (want == Filter{}) {
			t.Errorf("type %d: %+v, want %+v (%v)", icmpType, v, want, err)
		}
	}
}

// TestSenseless refuses flows that no packet can be of.
func TestSenseless(t *testing.T) {
	for want, f := range map[string]Flow{
		"there is no network interface eni-none":                              tcp("eni-none", "eni-web", 1),
		"neither 192.0.2.1 nor 192.0.2.2 is an address of the cloud":          tcp("192.0.2.1", "192.0.2.2", 1),
		"eni-db has no address of the flow's family":                          tcp("2001:db8:1::5", "eni-db", 1),
		"neither an interface nor an address is given":                        {Dst: end("eni-web")},
		"eni-web does not have the address 10.9.9.9":                          {Src: End{NIC: "eni-web", Addr: addr("10.9.9.9")}, Dst: end("eni-db")},
		"flow tcp 7 from eni-none to eni-web: source: there is no network in": tcp("eni-none", "eni-web", 7),
	} {
		if _, err := newScene().judge().Allowed(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestInForce: an interface is judged by the rules, groups and entries that it has in force.
func TestInForce(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		edit func(*aws.Resources)
		flow Flow
		end  bool // whether the flow passes when the edit is in force everywhere
	}{
		"a rule goes":             {func(d *aws.Resources) { d.Groups["sg-db"].Rules = nil }, tcp("eni-web", "eni-db", 5432), false},
		"an interface leaves":     {func(d *aws.Resources) { d.NICs["eni-web"].Groups = []aws.GroupName{{ID: "sg-client"}} }, tcp("eni-web", "eni-db", 5433), false},
		"an entry of a list goes": {func(d *aws.Resources) { d.PrefixLists["pl-office"].Versions[0] = nil }, tcp("198.51.100.7", "eni-web", 22), false},
		"a rule comes": {func(d *aws.Resources) {
			d.Groups["sg-web"].Rules = append(d.Groups["sg-web"].Rules, from(rule("sgr-new", "tcp", 80, 80), "0.0.0.0/0"))
		}, tcp("203.0.113.5", "eni-web", 80), true},
	} {
		t.Run(name, func(t *testing.T) {
			s, at := newScene(), now
			s.effects = effect.New(effect.Delay{Bound: time.Minute, Seed: 1}, func() time.Time { return at })
			before := Wholes(&s.d)
			c.edit(&s.d)
			after := Wholes(&s.d)
			for whole, parts := range before {
				s.effects.Record(whole, parts, after[whole])
			}
			x := s.judge()
			for _, step := range []struct {
				at   time.Time
				want bool
			}{{now, !c.end}, {now.Add(time.Minute), c.end}} {
				at = step.at
				if got, err := x.Passes(c.flow); err != nil || got != step.want {
					t.Errorf("after %s: passes %t (%v)", step.at.Sub(now), got, err)
				}
			}
		})
	}
}

// TestThrough follows a flow through a balancer whose targets see the client, and one whose targets
// see the balancer.
func TestThrough(t *testing.T) {
	for kind, preserved := range map[native.Kind]bool{native.NetBalancer: true, native.AppBalancer: false} {
		s := newScene()
		s.d.NICs["eni-web"].Attachment = &aws.Attachment{InstanceID: "i-web"}
		s.group("sg-lb", "vpc-1", from(rule("sgr-in", "tcp", 80, 80), "0.0.0.0/0"), out(from(rule("sgr-lb-out", "tcp", 443, 443), "10.0.0.0/16")))
		s.nic("eni-lb", "vpc-1", "subnet-b", "sg-lb", aws.PrivateIP{Addr: addr("10.0.2.50"), Primary: true, Public: addr("198.18.0.3")})
		lb := &native.Service{
			Kind: kind, Name: "front", VPCID: "vpc-1", Host: "Front.example", Nodes: []native.Node{{SubnetID: "subnet-b", NIC: "eni-lb"}},
			Listeners: []native.Listener{{Protocol: "TCP", Port: 80, Target: "web"}},
		}
		s.d.Services[aws.ServiceKey(lb.Ref())] = lb
		g := &native.TargetGroup{Name: "web", VPCID: "vpc-1", Type: "instance", Protocol: "TCP", Port: 443, Targets: []native.Target{{ID: "i-web"}, {ID: "i-gone"}}}
		s.d.Targets["web"] = g
		x := s.judge()
		p, ok, err := x.Through(tcp("203.0.113.5", "198.18.0.3", 80))
		if err != nil || !ok || !p.Allowed || p.Front != "eni-lb" || p.Preserved != preserved || len(p.Targets) != 2 {
			t.Fatalf("%s: %+v, %t (%v)", kind, p, ok, err)
		}
		seen := addr("10.0.2.50")
		if preserved {
			seen = addr("203.0.113.5")
		}
		if web, gone := p.Targets[0], p.Targets[1]; web.From != seen || !web.InUse || !web.Verdict.Allowed || gone.InUse || gone.NIC != "" {
			t.Errorf("%s: targets %+v", kind, p.Targets)
		}
		if _, ok, err := x.Through(tcp("203.0.113.5", "198.18.0.3", 81)); ok || err != nil {
			t.Errorf("%s: something listens on another port (%v)", kind, err)
		}
		if h := x.Health(&s.d, g); len(h) != 2 || h[0].State != "healthy" || h[1].State != "unhealthy" {
			t.Errorf("%s: health %+v", kind, h)
		}
		lb.Listeners = nil
		if h := x.Health(&s.d, g); h[0].State != "unused" {
			t.Errorf("%s: health without a listener %+v", kind, h)
		}
		if got := x.LookUp("FRONT.example"); len(got) != 1 || got[0] != addr("198.18.0.3") || x.LookUp("other.example") != nil {
			t.Errorf("%s: the host name leads to %v", kind, got)
		}
	}
}
