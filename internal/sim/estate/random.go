package estate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// Shape sizes a random estate. Zero fields take the defaults in brackets.
type Shape struct {
	Accounts     int // [1]
	Regions      int // per account, at most 4 [1]
	VPCs         int // per region [3]
	VMs          int // per VPC [6]
	Groups       int // per VPC, beside the default group [4]
	MaxRules     int // per group [5]
	NoIPv6       bool
	PeeringsOdds int // two VPCs are peered with a chance of one in PeeringsOdds [2]
}

func (s Shape) withDefaults() Shape {
	s.Accounts, s.Regions = cmp.Or(s.Accounts, 1), min(cmp.Or(s.Regions, 1), len(randomRegions))
	s.VPCs, s.VMs = cmp.Or(s.VPCs, 3), cmp.Or(s.VMs, 6)
	s.Groups, s.MaxRules = cmp.Or(s.Groups, 4), cmp.Or(s.MaxRules, 5)
	s.PeeringsOdds = cmp.Or(s.PeeringsOdds, 2)
	return s
}

// randomRegions are the regions of random estates. They are never written to.
var randomRegions = [...]string{"us-west-2", "us-east-1", "eu-west-1", "ap-southeast-2"}

// Random makes an estate from a seed, with the proportions of real accounts: a few groups per VPC
// with mostly one to five rules, VMs with one or two interfaces and one to three groups, some
// stopped, some with public or IPv6 addresses, services' interfaces, prefix lists and peerings,
// also across regions and accounts. The same arguments give the same estate. The quota of VPCs is
// raised as needed; no other quota is exceeded.
func Random(seed uint64, shape Shape) (aws.State, error) {
	d := &dice{Rand: rand.New(rand.NewPCG(seed, 1)), shape: shape.withDefaults()}
	s := aws.State{Seed: seed}
	e := d.estate()
	draw := &drawing{files: []yamlFile{{fmt.Sprintf("random estate %d", seed), e}}, state: &s, places: map[string]*place{}}
	if err := draw.draw(); err != nil {
		return s, err
	}
	s.Credentials = []aws.Credential{{AccessKeyID: DefaultAccessKeyID, Secret: DefaultSecret, Account: s.Accounts[0].ID}}
	return s, s.Check()
}

// dice makes the random choices.
type dice struct {
	*rand.Rand
	shape Shape
	vpcs  int // made so far
}

// one reports true once in n times.
func (d *dice) one(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d *dice, from []T) T { return from[d.IntN(len(from))] }

func (d *dice) estate() yamlEstate {
	var e yamlEstate
	type site struct{ name, region string }
	var sites []site
	peered := map[string][]string{}
	for a := range d.shape.Accounts {
		account := yamlAccount{ID: fmt.Sprintf("%012d", 100000000001+a*1111), Quotas: aws.Quotas{VPCsPerRegion: max(5, d.shape.VPCs+2)}}
		for r := range d.shape.Regions {
			region := yamlRegion{Name: randomRegions[r], PrefixLists: d.prefixLists()}
			for range d.shape.VPCs {
				v := d.vpc()
				region.VPCs = append(region.VPCs, v)
				sites = append(sites, site{v.Name, region.Name})
			}
			account.Regions = append(account.Regions, region)
		}
		e.Accounts = append(e.Accounts, account)
	}
	for i := range sites {
		for k := range i {
			if !d.one(d.shape.PeeringsOdds) {
				continue
			}
			status := aws.PeeringActive
			if d.one(5) {
				status = "pending-acceptance"
			}
			e.Peerings = append(e.Peerings, yamlPeering{Between: []string{sites[k].name, sites[i].name}, Status: status})
			if sites[i].region == sites[k].region {
				peered[sites[i].name] = append(peered[sites[i].name], sites[k].name)
				peered[sites[k].name] = append(peered[sites[k].name], sites[i].name)
			}
		}
	}
	for a := range e.Accounts {
		for r := range e.Accounts[a].Regions {
			region := &e.Accounts[a].Regions[r]
			for v := range region.VPCs {
				d.rules(&region.VPCs[v], region, peered[region.VPCs[v].Name])
			}
		}
	}
	return e
}

func (d *dice) prefixLists() []yamlPrefixList {
	v4 := yamlPrefixList{Name: "offices", MaxEntries: 4}
	for i := range 1 + d.IntN(3) {
		v4.Entries = append(v4.Entries, fmt.Sprintf("198.51.%d.0/24", 100+i))
	}
	return []yamlPrefixList{v4, {Name: "offices6", MaxEntries: 2, Entries: []string{"2001:db8:ff00::/40"}}}
}

func (d *dice) vpc() yamlVPC {
	n := d.vpcs
	d.vpcs++
	v := yamlVPC{Name: fmt.Sprintf("vpc%d", n), CIDRs: []string{fmt.Sprintf("10.%d.0.0/16", n)}}
	six := !d.shape.NoIPv6 && d.one(2)
	if six {
		v.CIDRs = append(v.CIDRs, fmt.Sprintf("2001:db8:%x::/56", n))
	}
	for i := range 2 {
		s := yamlSubnet{Name: fmt.Sprintf("net%d", i), CIDR: fmt.Sprintf("10.%d.%d.0/24", n, i), PublicIPs: i == 0}
		if six {
			s.IPv6 = fmt.Sprintf("2001:db8:%x:%x::/64", n, i)
		}
		v.Subnets = append(v.Subnets, s)
	}
	for i := range d.shape.Groups {
		v.Groups = append(v.Groups, yamlGroup{Name: fmt.Sprintf("group%d", i)})
	}
	for i := range d.shape.VMs {
		vm := yamlVM{Name: fmt.Sprintf("%s-vm%d", v.Name, i), Tags: aws.Tags{"app": pick(d, []string{"web", "db", "api", "batch"})}}
		if d.one(5) {
			vm.State = "stopped"
		}
		for k := range 1 + d.IntN(5)/4 {
			vm.NICs = append(vm.NICs, d.nic(&v, k, six))
		}
		v.VMs = append(v.VMs, vm)
	}
	if d.one(2) {
		n := d.nic(&v, 0, false)
		n.Name, n.Managed = "balancer", d.one(2)
		v.NICs = append(v.NICs, n)
	}
	return v
}

func (d *dice) nic(v *yamlVPC, index int, six bool) yamlNIC {
	n := yamlNIC{Subnet: fmt.Sprintf("net%d", d.IntN(2))}
	for _, g := range d.Perm(len(v.Groups))[:min(len(v.Groups), 1+d.IntN(3))] {
		n.Groups = append(n.Groups, v.Groups[g].Name)
	}
	if six && d.one(2) {
		n.IPv6 = yamlList{"auto"}
	}
	if index == 0 && d.one(4) {
		n.Public = "auto"
	}
	return n
}

// rules fills the groups of a VPC.
func (d *dice) rules(v *yamlVPC, region *yamlRegion, peered []string) {
	six := len(v.CIDRs) > 1
	for i := range v.Groups {
		g := &v.Groups[i]
		have := map[string]bool{}
		for range 1 + d.IntN(d.shape.MaxRules) {
			way := "from"
			if d.one(4) {
				way = "to"
			}
			peer := d.peer(v, region, peered, six)
			if peer == "self" {
				peer = g.Name
			}
			rule := d.service() + " " + way + " " + peer
			if strings.HasPrefix(rule, "icmp ") && strings.Contains(rule, ":") || have[rule] {
				continue
			}
			have[rule] = true
			g.Rules = append(g.Rules, rule)
		}
		if d.one(6) && !strings.Contains(strings.Join(g.Rules, "\n"), " to ") {
			g.Egress = "none"
		}
	}
}

func (d *dice) service() string {
	port := pick(d, []int{22, 53, 80, 443, 3306, 5432, 8080, 9080})
	switch d.IntN(8) {
	case 0:
		return "all"
	case 1:
		return fmt.Sprintf("udp %d", port)
	case 2:
		return fmt.Sprintf("tcp %d-%d", port, port+1+d.IntN(50))
	case 3:
		return pick(d, []string{"icmp", "icmp 8", "icmp 3/4", "icmpv6", "icmpv6 128"})
	case 4:
		return pick(d, []string{"tcp", "50", "132"})
	}
	return fmt.Sprintf("tcp %d", port)
}

func (d *dice) peer(v *yamlVPC, region *yamlRegion, peered []string, six bool) string {
	switch d.IntN(8) {
	case 0:
		return "any4"
	case 1:
		return v.CIDRs[0]
	case 2:
		return pick(d, v.Subnets).CIDR
	case 3:
		return "list:" + pick(d, region.PrefixLists).Name
	case 4:
		if len(peered) > 0 {
			return pick(d, peered) + "/" + pick(d, v.Groups).Name
		}
	case 5:
		if six {
			return pick(d, []string{"any6", v.CIDRs[1], pick(d, v.Subnets).IPv6})
		}
	}
	return pick(d, []string{"self", pick(d, v.Groups).Name, pick(d, v.Groups).Name})
}
