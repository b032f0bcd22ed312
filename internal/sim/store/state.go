package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// equipAll calls equip for each region of each account, by account and name.
func (w *Store) equipAll(equip func(*Site) error) error {
	keys := slices.SortedFunc(maps.Keys(w.regions), func(a, b scope) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.region, b.region))
	})
	var problems []error
	for _, at := range keys {
		problems = append(problems, equip(w.site(at)))
	}
	return errors.Join(problems...)
}

// Open builds a Store from a State, which it copies. Every inconsistency is reported, joined in one
// error; see State.Check. Once the resources are there equip is called for each region of each
// account, in order, to add what the State leaves out.
func Open(s aws.State, o Options, equip func(*Site) error) (*Store, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	w := &Store{
		clock: o.Clock, seed: o.Seed, counter: s.Counter, seq: s.Seq,
		visibility: o.VisibilityDelay, transition: o.TransitionDelay,
		accounts: map[string]*aws.Account{}, credentials: map[string]*aws.Credential{}, roles: map[string]*aws.Role{},
		regions: map[scope]*holdings{}, peerings: map[string]*aws.PeeringConnection{}, due: slices.Clone(s.Due),
	}
	if w.clock == nil {
		w.clock = time.Now
	}
	if s.Counter > 0 || s.Seed != 0 {
		w.seed = s.Seed
	}
	delay := s.Effects
	if o.Effects != (effect.Delay{}) {
		delay = o.Effects
	}
	if err := delay.Check(); err != nil {
		return nil, err
	}
	w.effects = effect.New(delay, w.clock)
	for _, a := range s.Accounts {
		a.Regions = slices.Clone(a.Regions)
		w.accounts[a.ID] = &a
		for _, name := range a.Regions {
			w.regions[scope{a.ID, name}] = newHoldings(defaultZones(name))
		}
	}
	for _, c := range s.Credentials {
		w.credentials[c.AccessKeyID] = &c
	}
	for _, r := range s.Roles {
		r.Trusted = slices.Clone(r.Trusted)
		w.roles[r.ARN()] = &r
	}
	for i := range s.Peerings {
		p := s.Peerings[i].Clone()
		w.peerings[p.ID] = &p
	}
	for i := range s.Regions {
		w.fill(&s.Regions[i])
	}
	if err := w.equipAll(equip); err != nil {
		return nil, err
	}
	if err := w.fillAzure(s.Azure, azure.Settings{Delay: o.OperationDelay, Lag: o.GraphLag, Effects: w.effects}); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Store) fill(r *aws.RegionState) {
	a := w.accounts[r.Account]
	if !slices.Contains(a.Regions, r.Name) {
		a.Regions = append(a.Regions, r.Name)
	}
	zones := slices.Clone(r.Zones)
	if len(zones) == 0 {
		zones = defaultZones(r.Name)
	}
	d := newHoldings(zones)
	w.regions[scope{r.Account, r.Name}] = d
	index(d.VPCs, r.VPCs, (*aws.VPC).Clone, func(v *aws.VPC) string { return v.ID })
	index(d.Subnets, r.Subnets, (*aws.Subnet).Clone, func(s *aws.Subnet) string { return s.ID })
	index(d.Groups, r.SecurityGroups, (*aws.SecurityGroup).Clone, func(g *aws.SecurityGroup) string { return g.ID })
	index(d.NICs, r.NetworkInterfaces, (*aws.NetworkInterface).Clone, func(n *aws.NetworkInterface) string { return n.ID })
	index(d.Instances, r.Instances, (*aws.Instance).Clone, func(i *aws.Instance) string { return i.ID })
	index(d.PrefixLists, r.PrefixLists, (*aws.PrefixList).Clone, func(p *aws.PrefixList) string { return p.ID })
	index(d.Tables, r.RouteTables, (*aws.RouteTable).Clone, func(t *aws.RouteTable) string { return t.ID })
	index(d.ACLs, r.NetworkACLs, (*aws.NetworkACL).Clone, func(a *aws.NetworkACL) string { return a.ID })
	index(d.Gateways, r.InternetGateways, (*aws.InternetGateway).Clone, func(g *aws.InternetGateway) string { return g.ID })
	index(d.Templates, r.LaunchTemplates, (*aws.LaunchTemplate).Clone, func(t *aws.LaunchTemplate) string { return t.ID })
	index(d.Services, r.Services, (*native.Service).Clone, func(s *native.Service) string { return aws.ServiceKey(s.Ref()) })
	index(d.Targets, r.TargetGroups, (*native.TargetGroup).Clone, func(g *native.TargetGroup) string { return g.Name })
	for _, v := range d.VPCs {
		d.completeVPC(v, time.Time{})
	}
	maps.Copy(d.clientTokens, r.ClientTokens)
	maps.Copy(d.runTokens, r.RunTokens)
	maps.Copy(d.listTokens, r.ListTokens)
	for id, t := range r.SharedTags {
		own := t.Clone()
		d.sharedTags[id] = &own
	}
	w.shared = w.shared || slices.ContainsFunc(r.Subnets, func(s aws.Subnet) bool { return len(s.SharedWith) > 0 })
}

func index[T any](into map[string]*T, all []T, clone func(*T) T, id func(*T) string) {
	for i := range all {
		c := clone(&all[i])
		into[id(&c)] = &c
	}
}

// defaultZones are three zones named after the region, with ids that look like the cloud's.
func defaultZones(region string) []aws.Zone {
	short := strings.NewReplacer("north", "n", "south", "s", "east", "e", "west", "w", "central", "c", "-", "").Replace(region)
	var out []aws.Zone
	for i, letter := range []string{"a", "b", "c"} {
		out = append(out, aws.Zone{Name: region + letter, ID: fmt.Sprintf("%s-az%d", short, i+1)})
	}
	return out
}

// State returns a deep copy of everything, in a fixed order.
func (w *Store) State() aws.State {
	var out aws.State
	w.read(func(time.Time) {
		out = aws.State{Version: aws.StateVersion, Seed: w.seed, Counter: w.counter, Seq: w.seq, Due: slices.Clone(w.due), Effects: w.effects.Delay()}
		out.Accounts = Ordered(w.accounts, func(a *aws.Account) aws.Account {
			c := *a
			c.Regions = slices.Clone(a.Regions)
			return c
		})
		if all := w.azure.State(); !all.Empty() {
			out.Azure = &all
		}
		out.Credentials = Ordered(w.credentials, func(c *aws.Credential) aws.Credential { return *c })
		out.Roles = Ordered(w.roles, func(r *aws.Role) aws.Role {
			c := *r
			c.Trusted = slices.Clone(r.Trusted)
			return c
		})
		out.Peerings = Ordered(w.peerings, (*aws.PeeringConnection).Clone)
		for _, a := range out.Accounts {
			for _, name := range a.Regions {
				out.Regions = append(out.Regions, w.regions[scope{a.ID, name}].state(a.ID, name))
			}
		}
	})
	return out
}

// state leaves out what Open makes up again.
func (d *holdings) state(account, name string) aws.RegionState {
	return aws.RegionState{
		Account: account, Name: name, Zones: slices.Clone(d.zones),
		VPCs: Ordered(d.VPCs, (*aws.VPC).Clone), Subnets: Ordered(d.Subnets, (*aws.Subnet).Clone),
		SecurityGroups:    Ordered(d.Groups, (*aws.SecurityGroup).Clone),
		NetworkInterfaces: Ordered(d.NICs, (*aws.NetworkInterface).Clone),
		Instances:         Ordered(d.Instances, (*aws.Instance).Clone),
		PrefixLists:       Ordered(d.PrefixLists, (*aws.PrefixList).Clone),
		RunTokens:         maps.Clone(d.runTokens), ListTokens: maps.Clone(d.listTokens),
		SharedTags: d.cloneSharedTags(),
		FabricState: aws.FabricState{
			RouteTables: slices.DeleteFunc(Ordered(d.Tables, (*aws.RouteTable).Clone), func(t aws.RouteTable) bool {
				return t.Implied && len(t.Tags)+len(t.Associations) == 0
			}),
			NetworkACLs: slices.DeleteFunc(Ordered(d.ACLs, (*aws.NetworkACL).Clone), func(a aws.NetworkACL) bool {
				return a.Implied && len(a.Tags)+len(a.Associations) == 0
			}),
			InternetGateways: Ordered(d.Gateways, (*aws.InternetGateway).Clone),
			LaunchTemplates:  Ordered(d.Templates, (*aws.LaunchTemplate).Clone),
			ClientTokens:     maps.Clone(d.clientTokens),
		},
		ServiceState: aws.ServiceState{Services: Ordered(d.Services, (*native.Service).Clone), TargetGroups: Ordered(d.Targets, (*native.TargetGroup).Clone)},
	}
}

// Ordered returns copies of the things of a map in the order of their keys.
func Ordered[T any](all map[string]*T, clone func(*T) T) []T {
	out := make([]T, 0, len(all))
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, clone(all[k]))
	}
	return out
}
