package estate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/defaults"
	"github.com/nephele-io/nephele/internal/sim/iam"
)

// The types of this file are the estate YAML; docs/simulator.md is its reference.

type yamlEstate struct {
	Accounts []yamlAccount `json:"accounts"`
	Peerings []yamlPeering `json:"peerings"`
}

type yamlAccount struct {
	ID          string           `json:"id"`
	Alias       string           `json:"alias"`
	Credentials []yamlCredential `json:"credentials"`
	Roles       []yamlRole       `json:"roles"`
	Quotas      aws.Quotas       `json:"quotas"`
	Regions     []yamlRegion     `json:"regions"`
}

type yamlCredential struct {
	AccessKeyID  string      `json:"accessKeyId"`
	Secret       string      `json:"secret"`
	SessionToken string      `json:"sessionToken"`
	User         string      `json:"user"`
	Policy       *iam.Policy `json:"policy"`
}

type yamlRole struct {
	Name              string      `json:"name"`
	Trusted           []string    `json:"trusted"`
	ExternalID        string      `json:"externalId"`
	MaxSessionSeconds int         `json:"maxSessionSeconds"`
	Policy            *iam.Policy `json:"policy"`
}

type yamlRegion struct {
	Name        string           `json:"name"`
	Zones       []string         `json:"zones"`
	PrefixLists []yamlPrefixList `json:"prefixLists"`
	VPCs        []yamlVPC        `json:"vpcs"`
}

type yamlPrefixList struct {
	Name       string   `json:"name"`
	ID         string   `json:"id"`
	AWS        bool     `json:"aws"`
	MaxEntries int      `json:"maxEntries"`
	Entries    []string `json:"entries"`
	Tags       aws.Tags `json:"tags"`
}

type yamlVPC struct {
	Name    string       `json:"name"`
	ID      string       `json:"id"`
	CIDRs   []string     `json:"cidrs"`
	Default bool         `json:"default"`
	Tags    aws.Tags     `json:"tags"`
	Subnets []yamlSubnet `json:"subnets"`
	Groups  []yamlGroup  `json:"groups"`
	VMs     []yamlVM     `json:"vms"`
	NICs    []yamlNIC    `json:"nics"`
	// Services are native services, TargetGroups what balancers hand their flows to.
	Services     []yamlService     `json:"services"`
	TargetGroups []yamlTargetGroup `json:"targetGroups"`
}

type yamlSubnet struct {
	Name      string   `json:"name"`
	ID        string   `json:"id"`
	CIDR      string   `json:"cidr"`
	IPv6      string   `json:"ipv6"`
	Zone      string   `json:"zone"`
	PublicIPs bool     `json:"publicIPs"`
	Tags      aws.Tags `json:"tags"`
}

type yamlGroup struct {
	Name        string   `json:"name"`
	ID          string   `json:"id"`
	Description string   `json:"description"`
	Tags        aws.Tags `json:"tags"`
	Egress      string   `json:"egress"` // "" or "none"
	Rules       []string `json:"rules"`
}

type yamlVM struct {
	Name   string    `json:"name"`
	ID     string    `json:"id"`
	Type   string    `json:"type"`
	State  string    `json:"state"`
	Tags   aws.Tags  `json:"tags"`
	NICs   []yamlNIC `json:"nics"`
	Subnet string    `json:"subnet"`
	IP     yamlList  `json:"ip"`
	IPv6   yamlList  `json:"ipv6"`
	Public string    `json:"public"`
	Groups []string  `json:"groups"`
}

type yamlNIC struct {
	Name        string   `json:"name"`
	ID          string   `json:"id"`
	Subnet      string   `json:"subnet"`
	IP          yamlList `json:"ip"`
	IPv6        yamlList `json:"ipv6"`
	Public      string   `json:"public"`
	Groups      []string `json:"groups"`
	Managed     bool     `json:"managed"`
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Tags        aws.Tags `json:"tags"`
}

type yamlPeering struct {
	ID      string   `json:"id"`
	Between []string `json:"between"`
	Status  string   `json:"status"`
	Tags    aws.Tags `json:"tags"`
}

// yamlList is a list of texts that may be written as a single one.
type yamlList []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *yamlList) UnmarshalJSON(b []byte) error {
	if strings.HasPrefix(string(b), "[") {
		var many []string
		if err := yaml.Unmarshal(b, &many); err != nil {
			return fmt.Errorf("expected a text or a list of texts: %w", err)
		}
		*l = many
		return nil
	}
	var one string
	if err := yaml.Unmarshal(b, &one); err != nil {
		return fmt.Errorf("expected a text or a list of texts: %w", err)
	}
	if one != "" {
		*l = yamlList{one}
	}
	return nil
}

// yamlFiles reads estate YAML files; together they are one estate.
func (l loader) yamlFiles(names []string) (aws.State, error) {
	l.Report.Format = "estate YAML"
	s := aws.State{}
	d := &drawing{state: &s, places: map[string]*place{}}
	for _, name := range names {
		data, err := l.Read(name)
		if err != nil {
			return s, err
		}
		var e yamlEstate
		if err := yaml.UnmarshalStrict(data, &e); err != nil {
			return s, fmt.Errorf("%s: not an estate: %w", l.Path(name), err)
		}
		if len(e.Accounts) == 0 && len(e.Peerings) == 0 {
			return s, fmt.Errorf("%s: accounts: expected at least one account", l.Path(name))
		}
		d.files = append(d.files, yamlFile{l.Path(name), e})
	}
	return s, d.draw()
}

type yamlFile struct {
	name   string
	estate yamlEstate
}

// drawing builds a State from estate YAML.
type drawing struct {
	files   []yamlFile
	state   *aws.State
	regions []*aws.RegionState
	places  map[string]*place // VPCs by account/region/name
}

// place is one VPC while it is being built.
type place struct {
	at      string // where it stands in the YAML
	spec    *yamlVPC
	region  *aws.RegionState
	vpc     *aws.VPC
	subnets map[string]*aws.Subnet // by name
	groups  map[string]*aws.SecurityGroup
	order   []string          // subnet names in the order of the file
	lists   map[string]string // prefix list names to ids
	taken   map[string]bool   // addresses
}

// draw makes first everything that rules refer to, then rules and machines.
func (d *drawing) draw() error {
	var all []*place
	for i := range d.files {
		f := &d.files[i]
		for a := range f.estate.Accounts {
			at := fmt.Sprintf("%s: accounts[%d]", f.name, a)
			made, err := d.account(at, &f.estate.Accounts[a])
			if err != nil {
				return err
			}
			all = append(all, made...)
		}
	}
	for i := range d.files {
		for k := range d.files[i].estate.Peerings {
			if err := d.peering(fmt.Sprintf("%s: peerings[%d]", d.files[i].name, k), &d.files[i].estate.Peerings[k]); err != nil {
				return err
			}
		}
	}
	for _, p := range all {
		if err := d.rules(p); err != nil {
			return err
		}
		if err := p.hosts(); err != nil {
			return err
		}
		if err := p.services(); err != nil {
			return err
		}
	}
	for _, p := range all {
		p.store()
	}
	for _, r := range d.regions {
		d.state.Regions = append(d.state.Regions, *r)
	}
	return nil
}

func (d *drawing) account(at string, y *yamlAccount) ([]*place, error) {
	if !defaults.IsAccount(y.ID) {
		return nil, fmt.Errorf("%s: id: expected 12 digits in quotes, found %q", at, y.ID)
	}
	a := aws.Account{ID: y.ID, Alias: y.Alias, Quotas: y.Quotas}
	for i, c := range y.Credentials {
		if c.AccessKeyID == "" || c.Secret == "" {
			return nil, fmt.Errorf("%s.credentials[%d]: expected accessKeyId and secret", at, i)
		}
		d.state.Credentials = append(d.state.Credentials, aws.Credential{
			AccessKeyID: c.AccessKeyID, Secret: c.Secret, SessionToken: c.SessionToken, User: c.User, Account: y.ID, Policy: c.Policy,
		})
	}
	for i, r := range y.Roles {
		if r.Name == "" || len(r.Trusted) == 0 {
			return nil, fmt.Errorf("%s.roles[%d]: expected a name and at least one trusted account", at, i)
		}
		d.state.Roles = append(d.state.Roles, aws.Role{
			Account: y.ID, Name: r.Name, Trusted: r.Trusted, ExternalID: r.ExternalID, MaxSession: r.MaxSessionSeconds,
			Policy: r.Policy,
		})
	}
	var out []*place
	for i := range y.Regions {
		r := &y.Regions[i]
		if r.Name == "" {
			return nil, fmt.Errorf("%s.regions[%d]: name: expected a region such as us-west-2", at, i)
		}
		a.Regions = append(a.Regions, r.Name)
		made, err := d.region(fmt.Sprintf("%s.regions[%d]", at, i), y.ID, r)
		if err != nil {
			return nil, err
		}
		out = append(out, made...)
	}
	d.state.Accounts = append(d.state.Accounts, a)
	return out, nil
}

func (d *drawing) region(at, account string, y *yamlRegion) ([]*place, error) {
	region := &aws.RegionState{Account: account, Name: y.Name}
	zones := y.Zones
	if len(zones) == 0 {
		zones = []string{y.Name + "a", y.Name + "b", y.Name + "c"}
	}
	for i, z := range zones {
		region.Zones = append(region.Zones, aws.Zone{Name: z, ID: fmt.Sprintf("%s-az%d", strings.ReplaceAll(y.Name, "-", ""), i+1)})
	}
	lists := map[string]string{}
	for i := range y.PrefixLists {
		p, err := prefixList(account, y.Name, &y.PrefixLists[i])
		if err != nil {
			return nil, fmt.Errorf("%s.prefixLists[%d]: %w", at, i, err)
		}
		region.PrefixLists = append(region.PrefixLists, p)
		lists[p.Name] = p.ID
	}
	var out []*place
	for i := range y.VPCs {
		p := &place{
			at: fmt.Sprintf("%s.vpcs[%d]", at, i), spec: &y.VPCs[i], region: region, lists: lists,
			subnets: map[string]*aws.Subnet{}, groups: map[string]*aws.SecurityGroup{}, taken: map[string]bool{},
		}
		if err := p.build(); err != nil {
			return nil, err
		}
		key := account + "/" + y.Name + "/" + p.spec.Name
		if d.places[key] != nil {
			return nil, fmt.Errorf("%s: name: the region has another VPC named %q", p.at, p.spec.Name)
		}
		d.places[key] = p
		out = append(out, p)
	}
	d.regions = append(d.regions, region)
	return out, nil
}

func prefixList(account, region string, y *yamlPrefixList) (aws.PrefixList, error) {
	p := aws.PrefixList{
		ID: cmp.Or(y.ID, defaults.ID("pl", account, region, y.Name)), Name: y.Name, OwnerID: account, MaxEntries: y.MaxEntries,
		State: "create-complete", Tags: y.Tags,
	}
	if y.Name == "" {
		return p, fmt.Errorf("name: expected a name")
	}
	if y.AWS {
		p.OwnerID = aws.AWSOwned
	}
	entries := []aws.PrefixListEntry{}
	for i, text := range y.Entries {
		cidr, description, _ := strings.Cut(text, " ")
		block, err := parseBlock(cidr)
		if err != nil {
			return p, fmt.Errorf("entries[%d]: %w", i, err)
		}
		family := "IPv4"
		if block.Addr().Is6() {
			family = "IPv6"
		}
		if p.Family != "" && p.Family != family {
			return p, fmt.Errorf("entries[%d]: expected an %s block as before, found %s", i, p.Family, block)
		}
		p.Family = family
		entries = append(entries, aws.PrefixListEntry{CIDR: block, Description: strings.TrimSpace(description)})
	}
	p.Family = cmp.Or(p.Family, "IPv4")
	p.MaxEntries = max(p.MaxEntries, len(entries), 1)
	p.Versions = [][]aws.PrefixListEntry{entries}
	slices.SortFunc(entries, func(a, b aws.PrefixListEntry) int { return a.CIDR.Compare(b.CIDR) })
	return p, nil
}
