package world_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	seeds "github.com/nephele-io/nephele/internal/seed"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/sim/world/worldtest"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 = a new one")

// TestRandomHistories makes random calls, sensible ones and wrong ones, and checks after every
// single one that the state is consistent, that no quota is exceeded, and that a refused call has
// changed nothing.
func TestRandomHistories(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = seeds.Of(t)
	}
	t.Logf("seed %d (repeat with -args -seed %d)", seed, seed)
	codes := map[string]int{}
	done := 0
	for n := range uint64(20) {
		h := newHistory(t, seed+n)
		for range 300 {
			h.b.Clock.Advance(time.Duration(h.IntN(3)) * time.Second)
			before := h.b.World.State()
			what, err := h.step()
			after := h.b.World.State()
			if err != nil {
				var e *aws.Error
				if !errors.As(err, &e) || e.HTTPStatus < 400 || e.Message == "" {
					t.Fatalf("seed %d: %s: %v is no refusal", seed+n, what, err)
				}
				codes[e.Code]++
				before.Counter, before.Due = after.Counter, after.Due
				if !reflect.DeepEqual(before, after) {
					t.Fatalf("seed %d: %s was refused (%v) but changed the state", seed+n, what, err)
				}
			} else {
				done++
			}
			if bad := h.check(after); bad != nil {
				t.Fatalf("seed %d: after %s (%v): %v", seed+n, what, err, bad)
			}
		}
	}
	t.Logf("%d calls done, refused: %v", done, codes)
	for _, code := range []string{"InvalidPermission.Duplicate", "RulesPerSecurityGroupLimitExceeded", "DependencyViolation",
		"SecurityGroupsPerInterfaceLimitExceeded", "InvalidGroup.NotFound", "TagLimitExceeded", "InvalidPermission.NotFound"} {
		if codes[code] == 0 {
			t.Errorf("no call was refused with %s: the histories do not go far enough", code)
		}
	}
}

// history makes random calls on a bench whose quotas are small.
type history struct {
	*rand.Rand
	b      *worldtest.Bench
	quotas aws.Quotas
	names  int
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 2)), b: worldtest.New(t, world.Options{Seed: seed, TransitionDelay: time.Second})}
	h.quotas = aws.Quotas{RulesPerGroup: 6, GroupsPerInterface: 2, GroupsPerRegion: 9, TagsPerResource: 3, VPCsPerRegion: 3, PrefixListsPerRegion: 2}
	if err := h.b.World.SetQuotas(worldtest.AccountA, h.quotas); err != nil {
		t.Fatal(err)
	}
	return h
}

func pickOne[T any](h *history, all []T) (T, bool) {
	if len(all) == 0 {
		var zero T
		return zero, false
	}
	return all[h.IntN(len(all))], true
}

// aGroup picks a group, rarely one that is not there.
func (h *history) aGroup() string {
	if h.IntN(25) == 0 {
		return "sg-00000000"
	}
	all, _ := h.b.Region.SecurityGroups()
	g, _ := pickOne(h, all)
	return g.ID
}

func (h *history) permission() aws.Permission {
	p := aws.Permission{Protocol: "tcp", FromPort: worldtest.Num(h.Int32N(3)), ToPort: worldtest.Num(3 + h.Int32N(2))}
	if h.IntN(3) == 0 {
		p = aws.Permission{Protocol: []string{"-1", "50", "58"}[h.IntN(3)]}
	}
	for range 1 + h.IntN(2) {
		switch h.IntN(5) {
		case 0, 1:
			p.CIDRs = append(p.CIDRs, aws.CIDRPeer{CIDR: fmt.Sprintf("10.%d.0.9/%d", h.IntN(3), 8+h.IntN(2)*8)})
		case 2:
			p.CIDRs = append(p.CIDRs, aws.CIDRPeer{CIDR: fmt.Sprintf("2001:db8:%d::/48", h.IntN(4)), IPv6: true})
		case 3:
			p.Groups = append(p.Groups, aws.GroupRef{GroupID: h.aGroup()})
		case 4:
			lists, _ := h.b.Region.Lists().PrefixLists()
			if l, ok := pickOne(h, lists); ok {
				p.PrefixLists = append(p.PrefixLists, aws.PrefixListPeer{PrefixListID: l.ID})
			}
		}
	}
	return p
}

// step makes one call.
func (h *history) step() (string, error) {
	r := h.b.Region
	egress := h.IntN(3) == 0
	switch h.IntN(16) {
	case 0, 1:
		vpcs, _ := r.VPCs()
		v, _ := pickOne(h, vpcs)
		h.names++
		_, err := r.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: fmt.Sprint("g", h.names), Description: "d", VPCID: v.ID})
		return "create a group", err
	case 2:
		_, err := r.Groups().DeleteSecurityGroup(h.aGroup(), "")
		return "delete a group", err
	case 3, 4, 5, 6:
		_, err := r.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: h.aGroup(), Egress: egress, Permissions: []aws.Permission{h.permission()}})
		return "authorize", err
	case 7:
		_, err := r.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: h.aGroup(), Egress: egress, Permissions: []aws.Permission{h.permission()}})
		return "revoke", err
	case 8:
		return h.revokeByID()
	case 9, 10:
		nics, _ := r.NetworkInterfaces()
		n, _ := pickOne(h, nics)
		var groups []string
		for range h.IntN(4) {
			groups = append(groups, h.aGroup())
		}
		return "set groups", r.Interfaces().ModifyNetworkInterfaceGroups(n.ID, groups)
	case 11:
		subnets, _ := r.Subnets()
		s, _ := pickOne(h, subnets)
		_, err := r.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1 + h.IntN(2), SubnetID: s.ID, GroupIDs: []string{h.aGroup()}})
		return "run", err
	case 12:
		return h.power()
	case 13:
		tags := []aws.Tag{{Key: fmt.Sprint("k", h.IntN(6)), Value: "v"}}
		if h.IntN(4) == 0 {
			return "delete tags", r.DeleteTags([]string{h.aGroup()}, []aws.TagKey{{Key: tags[0].Key}})
		}
		return "create tags", r.CreateTags([]string{h.aGroup(), h.aGroup()}, tags)
	case 14:
		return h.list()
	}
	if h.IntN(3) == 0 {
		_, err := r.Networks().CreateVPC(aws.CreateVPCInput{CIDR: fmt.Sprintf("10.%d.0.0/16", 100+h.IntN(100))})
		return "create a VPC", err
	}
	return h.modify()
}

func (h *history) revokeByID() (string, error) {
	rules, _ := h.b.Region.SecurityGroupRules()
	x, _ := pickOne(h, rules)
	group := x.GroupID
	if h.IntN(5) == 0 {
		group = h.aGroup()
	}
	_, err := h.b.Region.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: group, Egress: x.Egress, RuleIDs: []string{x.ID}})
	return "revoke by id", err
}

func (h *history) modify() (string, error) {
	rules, _ := h.b.Region.SecurityGroupRules()
	x, _ := pickOne(h, rules)
	p := h.permission()
	u := aws.RuleUpdate{RuleID: x.ID, Protocol: &p.Protocol, FromPort: p.FromPort, ToPort: p.ToPort}
	switch {
	case len(p.CIDRs) > 0 && p.CIDRs[0].IPv6:
		u.CIDRIPv6 = p.CIDRs[0].CIDR
	case len(p.CIDRs) > 0:
		u.CIDRIPv4 = p.CIDRs[0].CIDR
	case len(p.Groups) > 0:
		u.ReferencedGroupID = p.Groups[0].GroupID
	}
	return "modify a rule", h.b.Region.Groups().ModifySecurityGroupRules(x.GroupID, []aws.RuleUpdate{u})
}

func (h *history) power() (string, error) {
	all, _ := h.b.Region.Instances()
	i, _ := pickOne(h, all)
	switch h.IntN(4) {
	case 0:
		_, err := h.b.Region.InstanceCalls().StopInstances([]string{i.ID}, false)
		return "stop", err
	case 1:
		_, err := h.b.Region.InstanceCalls().StartInstances([]string{i.ID})
		return "start", err
	}
	_, err := h.b.Region.InstanceCalls().TerminateInstances([]string{i.ID})
	return "terminate", err
}

func (h *history) list() (string, error) {
	lists, _ := h.b.Region.Lists().PrefixLists()
	l, ok := pickOne(h, lists)
	if !ok || h.IntN(4) == 0 {
		_, err := h.b.Region.Lists().CreatePrefixList(aws.CreatePrefixListInput{Name: "l", Family: []string{"IPv4", "IPv6"}[h.IntN(2)], MaxEntries: 1 + h.IntN(3)})
		return "create a list", err
	}
	size := 1 + h.IntN(5)
	_, err := h.b.Region.Lists().ModifyPrefixList(aws.ModifyPrefixListInput{PrefixListID: l.ID, MaxEntries: &size})
	return "resize a list", err
}

// check proves a state: consistent, within the quotas, and no reference within a VPC dangling.
func (h *history) check(s aws.State) error {
	if err := s.Check(); err != nil {
		return err
	}
	for _, r := range s.Regions {
		lists := map[string]aws.PrefixList{}
		for _, p := range r.PrefixLists {
			lists[p.ID] = p
			if len(p.Entries()) > p.MaxEntries {
				return fmt.Errorf("%s has %d entries of %d", p.ID, len(p.Entries()), p.MaxEntries)
			}
		}
		groups := map[string]bool{}
		for _, g := range r.SecurityGroups {
			groups[g.ID] = true
		}
		if len(groups) > h.quotas.GroupsPerRegion || len(r.VPCs) > h.quotas.VPCsPerRegion {
			// The default group of a new VPC comes whatever the quota of groups says.
			if len(groups) > h.quotas.GroupsPerRegion+len(r.VPCs) || len(r.VPCs) > h.quotas.VPCsPerRegion {
				return fmt.Errorf("%d groups, %d VPCs", len(groups), len(r.VPCs))
			}
		}
		for _, g := range r.SecurityGroups {
			if err := h.checkGroup(g, groups, lists); err != nil {
				return err
			}
		}
		for _, n := range r.NetworkInterfaces {
			if len(n.Groups) > h.quotas.GroupsPerInterface {
				return fmt.Errorf("%s holds %d groups", n.ID, len(n.Groups))
			}
		}
	}
	return nil
}

func (h *history) checkGroup(g aws.SecurityGroup, groups map[string]bool, lists map[string]aws.PrefixList) error {
	// Counted again by hand: [egress][v6].
	var n [2][2]int
	for _, x := range g.Rules {
		dir := 0
		if x.Egress {
			dir = 1
		}
		switch {
		case x.Group != nil:
			if !groups[x.Group.GroupID] {
				return fmt.Errorf("%s references %s, which is gone", g.ID, x.Group.GroupID)
			}
			n[dir][0]++
			n[dir][1]++
		case x.PrefixListID != "" && lists[x.PrefixListID].Family == "IPv6":
			n[dir][1] += lists[x.PrefixListID].MaxEntries
		case x.PrefixListID != "":
			n[dir][0] += lists[x.PrefixListID].MaxEntries
		case x.CIDR.Addr().Is6():
			n[dir][1]++
		default:
			n[dir][0]++
		}
	}
	for _, dir := range n {
		for _, count := range dir {
			if count > h.quotas.RulesPerGroup {
				return fmt.Errorf("%s counts %v rules ([direction][family])", g.ID, n)
			}
		}
	}
	if len(g.Tags) > h.quotas.TagsPerResource {
		return fmt.Errorf("%s has %d tags", g.ID, len(g.Tags))
	}
	return nil
}
