package aws

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// FabricState is the part of a RegionState that this file is about.
type FabricState struct {
	RouteTables      []RouteTable      `json:"routeTables,omitempty"`
	NetworkACLs      []NetworkACL      `json:"networkAcls,omitempty"`
	InternetGateways []InternetGateway `json:"internetGateways,omitempty"`
	LaunchTemplates  []LaunchTemplate  `json:"launchTemplates,omitempty"`
	// ClientTokens are the ids of what was made with a token, by action and token.
	ClientTokens map[string]string `json:"clientTokens,omitempty"`
}

// checkFabric checks the fabric of a region against its VPCs and subnets.
func (c *checker) fabric(s *FabricState, vpcs map[string]*VPC, subnets map[string]*Subnet) {
	mains, defaults := map[string]bool{}, map[string]bool{}
	for i := range s.RouteTables {
		t := &s.RouteTables[i]
		c.id("rtb", t.ID)
		if vpcs[t.VPCID] == nil || t.Main != "" && mains[t.VPCID] {
			c.bad("%s: expected a known VPC with one main route table, not %q", t.ID, t.VPCID)
		}
		mains[t.VPCID] = mains[t.VPCID] || t.Main != ""
		c.associated(t.ID, t.VPCID, t.Associations, subnets)
		for _, r := range t.Routes {
			if r.Destination.IsValid() == (r.PrefixListID != "") || r.Destination.IsValid() && r.Destination != r.Destination.Masked() || r.Target == "" {
				c.bad("%s: route to %s by %q: expected one canonical block or prefix list, and a target", t.ID, r.Destination, r.Target)
			}
		}
	}
	for i := range s.NetworkACLs {
		a := &s.NetworkACLs[i]
		c.id("acl", a.ID)
		if vpcs[a.VPCID] == nil || a.Default && defaults[a.VPCID] {
			c.bad("%s: expected a known VPC with one default ACL, not %q", a.ID, a.VPCID)
		}
		defaults[a.VPCID] = defaults[a.VPCID] || a.Default
		c.associated(a.ID, a.VPCID, a.Associations, subnets)
		seen := map[EntryKey]bool{}
		for _, e := range a.Entries {
			if err := e.Check(); err != nil || seen[e.Key()] {
				c.bad("%s: entry %d: %v", a.ID, e.Number, err)
			}
			seen[e.Key()] = true
		}
	}
	for i := range s.InternetGateways {
		g := &s.InternetGateways[i]
		c.id("igw", g.ID)
		if g.VPCID != "" && vpcs[g.VPCID] == nil {
			c.bad("%s: there is no VPC %s", g.ID, g.VPCID)
		}
	}
	for i := range s.LaunchTemplates {
		t := &s.LaunchTemplates[i]
		c.id("lt", t.ID)
		if t.Name == "" || t.Numbered(t.DefaultVersion) == nil {
			c.bad("%s: expected a name and a default version that is there", t.ID)
		}
	}
}

func (c *checker) associated(id, vpc string, all []SubnetAssociation, subnets map[string]*Subnet) {
	for _, a := range all {
		if s := subnets[a.SubnetID]; s == nil || s.VPCID != vpc {
			c.bad("%s: there is no subnet %s in VPC %s", id, a.SubnetID, vpc)
		}
	}
}

// ServiceState is the part of a RegionState that this file is about. A node of a service without an
// interface gets one when the World is built.
type ServiceState struct {
	Services     []native.Service     `json:"services,omitempty"`
	TargetGroups []native.TargetGroup `json:"targetGroups,omitempty"`
}

// services checks the services of a region against what they refer to.
func (c *checker) services(r *RegionState, subnets map[string]*Subnet) {
	nics := map[string]bool{}
	for i := range r.NetworkInterfaces {
		nics[r.NetworkInterfaces[i].ID] = true
	}
	inside := func(subnet, vpc string) bool { return subnets[subnet] != nil && subnets[subnet].VPCID == vpc }
	if err := native.CheckAll(r.Services, r.TargetGroups, inside, func(id string) bool { return nics[id] }); err != nil {
		c.problems = append(c.problems, err)
	}
}

// sharing returns the VPCs and subnets of other accounts that one account's region may refer to.
func (s *State) sharing(at *RegionState) (vpcs map[string]*VPC, subnets map[string]*Subnet) {
	vpcs, subnets = map[string]*VPC{}, map[string]*Subnet{}
	for i := range s.Regions {
		r := &s.Regions[i]
		if r.Name != at.Name || r.Account == at.Account {
			continue
		}
		for k := range r.Subnets {
			if !slices.Contains(r.Subnets[k].SharedWith, at.Account) {
				continue
			}
			subnets[r.Subnets[k].ID] = &r.Subnets[k]
			for n := range r.VPCs {
				if r.VPCs[n].ID == r.Subnets[k].VPCID {
					vpcs[r.VPCs[n].ID] = &r.VPCs[n]
				}
			}
		}
	}
	return vpcs, subnets
}

// StateVersion is the version of the State format that this package writes and reads.
const StateVersion = 1

// State is the whole content of a World as plain data: what a simulator starts from, and saves.
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
	RunTokens         map[string]RunToken `json:"RunTokens,omitempty"`
	ListTokens        map[string]string   `json:"listTokens,omitempty"`
	// SharedTags are the account's own tags on VPCs and subnets that others share with it, by id.
	SharedTags map[string]Tags `json:"sharedTags,omitempty"`
	FabricState
	ServiceState
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
	seenRegions := map[[2]string]bool{}
	for i := range s.Regions {
		r := &s.Regions[i]
		if !accounts[r.Account] || r.Name == "" || seenRegions[[2]string{r.Account, r.Name}] {
			c.bad("region %q of account %q: expected a known account and each region once", r.Name, r.Account)
		}
		seenRegions[[2]string{r.Account, r.Name}] = true
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

// Transition is a state change that the cloud makes by itself at a later time.
type Transition struct {
	At      time.Time `json:"at"`
	Account string    `json:"account"`
	Region  string    `json:"region"`
	ID      string    `json:"id"`
	From    string    `json:"from"` // made only if the object is still in this state
	To      string    `json:"to"`
}

// RunToken remembers a RunInstances call for its ClientToken.
type RunToken struct {
	Request     string   `json:"request"` // digest of the parameters
	Reservation string   `json:"reservation"`
	Instances   []string `json:"instances"`
}
