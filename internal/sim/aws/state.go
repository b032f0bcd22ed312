package aws

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// StateVersion is the version of the State format that this package writes and reads.
const StateVersion = 1

// State is the whole content of a World as plain data: what New starts from, and what Save writes.
// A fresh State needs only Accounts and Regions; ids must be unique in the whole State.
type State struct {
	Version     int                 `json:"version,omitempty"` // 0 is taken as StateVersion
	Seed        uint64              `json:"seed,omitempty"`
	Counter     uint64              `json:"counter,omitempty"` // ids made up so far
	Seq         uint64              `json:"seq,omitempty"`     // mutations committed so far
	Accounts    []Account           `json:"accounts"`
	Credentials []Credential        `json:"credentials,omitempty"`
	Roles       []Role              `json:"roles,omitempty"`
	Regions     []RegionState       `json:"regions,omitempty"`
	Peerings    []PeeringConnection `json:"peerings,omitempty"`
	Due         []Transition        `json:"due,omitempty"`
	// Azure is the Azure side; nil if there is none.
	Azure *azure.State `json:"azure,omitempty"`
	// Effects say how long edits take. Edits that were pending when the State was saved are in
	// force in a World that is made of it.
	Effects effect.Delay `json:"effects,omitzero"`
}

// RegionState is what one account has in one region. Zones may be empty: three are then made up.
type RegionState struct {
	Account           string              `json:"account"`
	Name              string              `json:"name"`
	Zones             []Zone              `json:"zones,omitempty"`
	VPCs              []VPC               `json:"vpcs,omitempty"`
	Subnets           []Subnet            `json:"subnets,omitempty"`
	SecurityGroups    []SecurityGroup     `json:"securityGroups,omitempty"`
	NetworkInterfaces []NetworkInterface  `json:"networkInterfaces,omitempty"`
	Instances         []Instance          `json:"instances,omitempty"`
	PrefixLists       []PrefixList        `json:"prefixLists,omitempty"`
	RunTokens         map[string]runToken `json:"runTokens,omitempty"`
	ListTokens        map[string]string   `json:"listTokens,omitempty"`
	// SharedTags are the account's own tags on VPCs and subnets that others share with it, by id.
	SharedTags map[string]Tags `json:"sharedTags,omitempty"`
	FabricState
	ServiceState
}

// New builds a World from a State, which it copies. Every inconsistency is reported, joined in one
// error; see State.Check.
func New(s State, o Options) (*World, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	w := &World{
		clock: o.Clock, seed: o.Seed, counter: s.Counter, seq: s.Seq,
		visibility: o.VisibilityDelay, transition: o.TransitionDelay,
		accounts: map[string]*Account{}, credentials: map[string]*Credential{}, roles: map[string]*Role{},
		regions: map[scope]*regionData{}, peerings: map[string]*PeeringConnection{}, due: slices.Clone(s.Due),
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
			w.regions[scope{a.ID, name}] = newRegionData(defaultZones(name))
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
		p := clonePeering(&s.Peerings[i])
		w.peerings[p.ID] = &p
	}
	for i := range s.Regions {
		w.fill(&s.Regions[i])
	}
	if err := w.equipAll(); err != nil {
		return nil, err
	}
	if err := w.fillAzure(s.Azure, azure.Settings{Delay: o.OperationDelay, Lag: o.GraphLag, Effects: w.effects}); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *World) fill(r *RegionState) {
	a := w.accounts[r.Account]
	if !slices.Contains(a.Regions, r.Name) {
		a.Regions = append(a.Regions, r.Name)
	}
	zones := slices.Clone(r.Zones)
	if len(zones) == 0 {
		zones = defaultZones(r.Name)
	}
	d := newRegionData(zones)
	w.regions[scope{r.Account, r.Name}] = d
	index(d.vpcs, r.VPCs, cloneVPC, func(v *VPC) string { return v.ID })
	index(d.subnets, r.Subnets, cloneSubnet, func(s *Subnet) string { return s.ID })
	index(d.groups, r.SecurityGroups, cloneGroup, func(g *SecurityGroup) string { return g.ID })
	index(d.nics, r.NetworkInterfaces, cloneNIC, func(n *NetworkInterface) string { return n.ID })
	index(d.instances, r.Instances, cloneInstance, func(i *Instance) string { return i.ID })
	index(d.prefixLists, r.PrefixLists, clonePrefixList, func(p *PrefixList) string { return p.ID })
	d.fillFabric(&r.FabricState)
	d.fillServices(&r.ServiceState)
	maps.Copy(d.runTokens, r.RunTokens)
	maps.Copy(d.listTokens, r.ListTokens)
	for id, t := range r.SharedTags {
		own := cloneTags(t)
		d.sharedTags[id] = &own
	}
	w.shared = w.shared || slices.ContainsFunc(r.Subnets, func(s Subnet) bool { return len(s.SharedWith) > 0 })
}

func index[T any](into map[string]*T, all []T, clone func(*T) T, id func(*T) string) {
	for i := range all {
		c := clone(&all[i])
		into[id(&c)] = &c
	}
}

// defaultZones are three zones named after the region, with ids that look like those of the cloud.
func defaultZones(region string) []Zone {
	short := strings.NewReplacer("north", "n", "south", "s", "east", "e", "west", "w", "central", "c", "-", "").Replace(region)
	var out []Zone
	for i, letter := range []string{"a", "b", "c"} {
		out = append(out, Zone{region + letter, fmt.Sprintf("%s-az%d", short, i+1)})
	}
	return out
}

// State returns a deep copy of everything, in a fixed order.
func (w *World) State() State {
	var out State
	w.read(func(time.Time) {
		out = State{Version: StateVersion, Seed: w.seed, Counter: w.counter, Seq: w.seq, Due: slices.Clone(w.due), Effects: w.effects.Delay()}
		out.Accounts = ordered(w.accounts, func(a *Account) Account {
			c := *a
			c.Regions = slices.Clone(a.Regions)
			return c
		})
		if all := w.azure.State(); !all.Empty() {
			out.Azure = &all
		}
		out.Credentials = ordered(w.credentials, func(c *Credential) Credential { return *c })
		out.Roles = ordered(w.roles, func(r *Role) Role {
			c := *r
			c.Trusted = slices.Clone(r.Trusted)
			return c
		})
		out.Peerings = ordered(w.peerings, clonePeering)
		for _, a := range out.Accounts {
			for _, name := range a.Regions {
				d := w.regions[scope{a.ID, name}]
				out.Regions = append(out.Regions, RegionState{
					Account: a.ID, Name: name, Zones: slices.Clone(d.zones),
					VPCs: ordered(d.vpcs, cloneVPC), Subnets: ordered(d.subnets, cloneSubnet),
					SecurityGroups:    ordered(d.groups, cloneGroup),
					NetworkInterfaces: ordered(d.nics, cloneNIC),
					Instances:         ordered(d.instances, cloneInstance),
					PrefixLists:       ordered(d.prefixLists, clonePrefixList),
					RunTokens:         maps.Clone(d.runTokens), ListTokens: maps.Clone(d.listTokens),
					SharedTags: d.cloneSharedTags(), FabricState: d.fabric.state(), ServiceState: d.serviceData.state(),
				})
			}
		}
	})
	return out
}

func ordered[T any](all map[string]*T, clone func(*T) T) []T {
	out := make([]T, 0, len(all))
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, clone(all[k]))
	}
	return out
}

var accountID = regexp.MustCompile(`^\d{12}$`)

// Check reports everything that is inconsistent in a State: malformed or repeated ids, references
// to things that are not there (a rule may reference a group that no longer exists: such stale
// rules occur in the cloud too), rules that are not canonical or appear twice in a group, groups of
// another VPC on an interface, VPCs without exactly one default group.
func (s *State) Check() error {
	c := checker{ids: map[string]bool{}}
	if s.Version != 0 && s.Version != StateVersion {
		c.bad("state version %d, this program reads version %d", s.Version, StateVersion)
	}
	accounts := map[string]bool{}
	for _, a := range s.Accounts {
		if !accountID.MatchString(a.ID) {
			c.bad("account %q: expected 12 digits", a.ID)
		}
		if accounts[a.ID] {
			c.bad("account %s appears twice", a.ID)
		}
		accounts[a.ID] = true
		if err := a.Quotas.Check(); err != nil {
			c.bad("account %s: %v", a.ID, err)
		}
	}
	for _, k := range s.Credentials {
		if k.AccessKeyID == "" || k.Secret == "" || !accounts[k.Account] {
			c.bad("credential %q: expected an access key id, a secret and a known account, not %q", k.AccessKeyID, k.Account)
		}
	}
	for _, r := range s.Roles {
		if r.Name == "" || !accounts[r.Account] {
			c.bad("role %q: expected a name and a known account, not %q", r.Name, r.Account)
		}
	}
	seenRegions := map[scope]bool{}
	for i := range s.Regions {
		r := &s.Regions[i]
		if !accounts[r.Account] || r.Name == "" || seenRegions[scope{r.Account, r.Name}] {
			c.bad("region %q of account %q: expected a known account and each region once", r.Name, r.Account)
		}
		seenRegions[scope{r.Account, r.Name}] = true
		vpcs, subnets := s.sharing(r)
		c.region(r, vpcs, subnets)
	}
	for i := range s.Peerings {
		c.id("pcx", s.Peerings[i].ID)
	}
	if s.Azure != nil {
		if err := s.Azure.Check(); err != nil {
			c.problems = append(c.problems, err)
		}
	}
	return errors.Join(c.problems...)
}

type checker struct {
	ids      map[string]bool
	problems []error
}

func (c *checker) bad(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

func (c *checker) id(prefix, id string) {
	if !WellFormed(prefix, id) {
		c.bad("id %q: expected %s- and 8 or 17 hexadecimal digits", id, prefix)
	}
	if c.ids[id] {
		c.bad("id %s appears twice", id)
	}
	c.ids[id] = true
}

// validAddr says whether an address is one that an interface can have.
func validAddr(a netip.Addr) bool { return a.IsValid() && !a.Is4In6() && a.Zone() == "" }
