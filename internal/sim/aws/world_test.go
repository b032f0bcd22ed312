package aws

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	acctA = "111111111111"
	acctB = "222222222222"
	east  = "us-east-1"
	west  = "us-west-2"
)

// clock is a clock that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// bench is a world with two accounts in two regions; account A has a VPC with two subnets in the
// west.
type bench struct {
	t      *testing.T
	w      *World
	clock  *clock
	r      *Region // account A, west
	vpc    VPC
	subnet [2]Subnet
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	b := &bench{t: t, clock: newClock()}
	o.Clock = b.clock.now
	b.w = must[*World](t)(New(State{
		Accounts:    []Account{{ID: acctA, Regions: []string{east, west}}, {ID: acctB, Regions: []string{east, west}}},
		Credentials: []Credential{{AccessKeyID: "AKIATESTTESTTESTTEST", Secret: "secret", Account: acctA}},
		Roles:       []Role{{Account: acctB, Name: "reader", Trusted: []string{acctA}, ExternalID: "x1"}},
	}, o))
	b.r = must[*Region](t)(b.w.Region(acctA, west))
	b.vpc = must[VPC](t)(b.r.Networks().CreateVPC(CreateVPCInput{CIDR: "10.0.0.0/16", AmazonProvidedIPv6: true, Tags: Tags{"Name": "main"}}))
	b.clock.advance(o.VisibilityDelay)
	for i := range b.subnet {
		bytes := b.vpc.CIDRs[1].Prefix.Addr().As16()
		bytes[7] = byte(i)
		six := netip.PrefixFrom(netip.AddrFrom16(bytes), 64).String()
		b.subnet[i] = must[Subnet](t)(b.r.Networks().CreateSubnet(CreateSubnetInput{VPCID: b.vpc.ID, CIDR: fmt.Sprintf("10.0.%d.0/24", i), IPv6CIDR: six}))
	}
	b.clock.advance(o.VisibilityDelay)
	return b
}

func (b *bench) group(name string) string {
	b.t.Helper()
	return must[SecurityGroup](b.t)(b.r.Groups().CreateSecurityGroup(CreateSecurityGroupInput{Name: name, Description: "test", VPCID: b.vpc.ID})).ID
}

func (b *bench) run(in RunInstancesInput) Instance {
	b.t.Helper()
	if in.SubnetID == "" && len(in.Interfaces) == 0 {
		in.SubnetID = b.subnet[0].ID
	}
	in.ImageID, in.MinCount, in.MaxCount = "ami-00000000", 1, 1
	return must[Reservation](b.t)(b.r.InstanceCalls().RunInstances(in)).Instances[0]
}

func (b *bench) rules(group string) []string {
	b.t.Helper()
	var out []string
	for _, x := range must[[]SecurityGroup](b.t)(b.r.SecurityGroups(group))[0].Rules {
		out = append(out, x.String())
	}
	return out
}

func num(n int32) *int32 { return &n }

func text(s string) *string { return &s }

// tcp is a permission for one TCP port with blocks as peers.
func tcp(port int32, cidrs ...string) Permission {
	p := Permission{Protocol: "tcp", FromPort: num(port), ToPort: num(port)}
	for _, c := range cidrs {
		p.CIDRs = append(p.CIDRs, CIDRPeer{CIDR: c, IPv6: strings.Contains(c, ":")})
	}
	return p
}

func fromGroup(p Permission, ids ...string) Permission {
	for _, id := range ids {
		p.Groups = append(p.Groups, GroupRef{GroupID: id})
	}
	return p
}

func (b *bench) allow(group string, perms ...Permission) error {
	_, err := b.r.Groups().AuthorizeSecurityGroup(AuthorizeInput{GroupID: group, Permissions: perms})
	return err
}

// wantRefusal checks code and message of a refusal.
func wantRefusal(t *testing.T, what string, err error, code, message string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, message) {
		t.Errorf("%s: error %v, want %s: %s", what, err, code, message)
	}
}

func TestNewGroupRules(t *testing.T) {
	b := newBench(t, Options{})
	g := b.group("web")
	if got := fmt.Sprint(b.rules(g)); got != "[all to 0.0.0.0/0 all to ::/0]" {
		t.Errorf("rules of a new group in a VPC with IPv6: %s", got)
	}
	v4 := must[VPC](t)(b.r.Networks().CreateVPC(CreateVPCInput{CIDR: "10.9.0.0/16"}))
	groups := must[[]SecurityGroup](t)(b.r.SecurityGroups())
	for _, g := range groups {
		if g.VPCID == v4.ID && (g.Name != "default" || fmt.Sprint(b.rules(g.ID)) != fmt.Sprintf("[all from %s all to 0.0.0.0/0]", g.ID)) {
			t.Errorf("default group %+v", g)
		}
	}
	if v4.State != StatePending || must[[]VPC](t)(b.r.VPCs(v4.ID))[0].State != StateAvailable {
		t.Errorf("a new VPC is pending, then available")
	}
}

func TestAuthorizeAndRevoke(t *testing.T) {
	b := newBench(t, Options{})
	web, db := b.group("web"), b.group("db")
	added := must[[]SecurityGroupRule](t)(b.r.Groups().AuthorizeSecurityGroup(AuthorizeInput{GroupID: web, RuleTags: Tags{"k": "v"},
		Permissions: []Permission{fromGroup(tcp(22, "100.68.0.18/18", "2001:db8::1/32"), db)}}))
	if len(added) != 3 || added[0].CIDR.String() != "100.68.0.0/18" || added[2].Group.UserID != acctA || added[1].Tags["k"] != "v" {
		t.Errorf("added %+v", added)
	}
	before := fmt.Sprint(b.rules(web))
	for what, c := range map[string]struct {
		perms         []Permission
		code, message string
	}{
		"duplicate after masking": {[]Permission{tcp(80, "10.0.0.0/8"), tcp(22, "100.68.63.1/18")}, "InvalidPermission.Duplicate", `the specified rule "peer: 100.68.0.0/18, TCP, from port: 22, to port: 22, ALLOW" already exists`},
		"duplicate group":         {[]Permission{fromGroup(tcp(22), db)}, "InvalidPermission.Duplicate", "peer: " + db},
		"by number":               {[]Permission{{Protocol: "6", FromPort: num(22), ToPort: num(22), CIDRs: []CIDRPeer{{CIDR: "100.68.0.0/18"}}}}, "InvalidPermission.Duplicate", "TCP"},
		"twice in one call":       {[]Permission{tcp(80, "10.0.0.0/8"), tcp(80, "10.1.0.0/8")}, "InvalidParameterValue", "The same permission must not appear multiple times"},
		"unknown group":           {[]Permission{fromGroup(tcp(80), "sg-00000000")}, "InvalidGroup.NotFound", "The security group 'sg-00000000' does not exist"},
		"malformed group":         {[]Permission{fromGroup(tcp(80), "foobar")}, "InvalidGroupId.Malformed", "The security group ID 'foobar' is malformed"},
		"unknown list":            {[]Permission{{Protocol: "-1", PrefixLists: []PrefixListPeer{{PrefixListID: "pl-00000000"}}}}, "InvalidPrefixListID.NotFound", ""},
		"bad block":               {[]Permission{tcp(80, "10.0.0.0/33")}, "InvalidParameterValue", "CIDR block 10.0.0.0/33 is malformed"},
		"no ports":                {[]Permission{{Protocol: "tcp", CIDRs: []CIDRPeer{{CIDR: "10.0.0.0/8"}}}}, "InvalidParameterValue", "Must specify both from and to ports with TCP/UDP."},
		"reversed ports":          {[]Permission{{Protocol: "udp", FromPort: num(9), ToPort: num(8), CIDRs: []CIDRPeer{{CIDR: "10.0.0.0/8"}}}}, "InvalidParameterValue", "(9:8)"},
		"no protocol":             {[]Permission{{CIDRs: []CIDRPeer{{CIDR: "10.0.0.0/8"}}}}, "InvalidParameterValue", "Invalid value 'null' for protocol."},
		"no peer":                 {[]Permission{tcp(80)}, "InvalidPermission.Malformed", ""},
		"bad description":         {[]Permission{{Protocol: "-1", CIDRs: []CIDRPeer{{CIDR: "10.0.0.0/8", Description: "a|b"}}}}, "InvalidParameterValue", "Invalid rule description."},
		"nothing":                 {nil, "MissingParameter", "ipPermissions"},
	} {
		wantRefusal(t, what, b.allow(web, c.perms...), c.code, c.message)
	}
	if after := fmt.Sprint(b.rules(web)); after != before {
		t.Errorf("refused calls changed the rules: %s, before %s", after, before)
	}
	_, err := b.r.Groups().RevokeSecurityGroup(RevokeInput{GroupID: web, Permissions: []Permission{tcp(22, "100.68.0.0/18"), tcp(23, "10.0.0.0/8")}})
	wantRefusal(t, "revoke a missing rule", err, "InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
	if after := fmt.Sprint(b.rules(web)); after != before {
		t.Errorf("a refused revoke changed the rules to %s", after)
	}
	got := must[RevokeResult](t)(b.r.Groups().RevokeSecurityGroup(RevokeInput{GroupID: web, RuleIDs: []string{added[0].ID, added[2].ID}}))
	if len(got.Revoked) != 2 {
		t.Errorf("revoked %+v", got)
	}
	_, err = b.r.Groups().RevokeSecurityGroup(RevokeInput{GroupID: web, RuleIDs: []string{added[0].ID}})
	wantRefusal(t, "revoke again", err, "InvalidSecurityGroupRuleId.NotFound", "The security group rule ID '"+added[0].ID+"' does not exist")
	must[RevokeResult](
		t,
	)(
		b.r.Groups().RevokeSecurityGroup(
			RevokeInput{GroupID: web, Egress: true, Permissions: []Permission{{Protocol: "all", CIDRs: []CIDRPeer{{CIDR: "0.0.0.0/0"}, {CIDR: "::/0", IPv6: true}}}}},
		),
	)
	if got := fmt.Sprint(b.rules(web)); got != "[tcp 22 from 2001:db8::/32]" {
		t.Errorf("rules left: %s", got)
	}
}

func TestRevokeInDefaultVPC(t *testing.T) {
	s := newBench(t, Options{}).w.State()
	s.Regions[1].VPCs[0].IsDefault = true
	w := must[*World](t)(New(s, Options{}))
	r := must[*Region](t)(w.Region(acctA, west))
	g := must[SecurityGroup](t)(Groups{r.site}.CreateSecurityGroup(CreateSecurityGroupInput{Name: "web", Description: "d"})).ID
	got := must[RevokeResult](t)(Groups{r.site}.RevokeSecurityGroup(RevokeInput{GroupName: "web", Permissions: []Permission{tcp(80, "10.0.0.0/8")}}))
	if len(got.Unknown) != 1 || len(got.Revoked) != 0 || got.Unknown[0].CIDRs[0].CIDR != "10.0.0.0/8" {
		t.Errorf("revoke in a default VPC: %+v", got)
	}
	if id := must[string](t)((Groups{r.site}).DeleteSecurityGroup("", "web")); id != g {
		t.Errorf("deleted %s by name, want %s", id, g)
	}
}

func TestGroupRefusals(t *testing.T) {
	b := newBench(t, Options{})
	web := b.group("web")
	b.group("db")
	def := must[[]SecurityGroup](t)(b.r.SecurityGroups())[0].ID
	for _, g := range must[[]SecurityGroup](t)(b.r.SecurityGroups()) {
		if g.Name == "default" {
			def = g.ID
		}
	}
	create := func(name, description, vpc string) error {
		_, err := b.r.Groups().CreateSecurityGroup(CreateSecurityGroupInput{Name: name, Description: description, VPCID: vpc})
		return err
	}
	remove := func(id string) error {
		_, err := b.r.Groups().DeleteSecurityGroup(id, "")
		return err
	}
	wantRefusal(t, "same name", create("WEB", "d", b.vpc.ID), "InvalidGroup.Duplicate", "The security group 'WEB' already exists for VPC '"+b.vpc.ID+"'")
	wantRefusal(t, "reserved", create("default", "d", b.vpc.ID), "InvalidGroup.Reserved", "")
	wantRefusal(t, "no description", create("x", "", b.vpc.ID), "MissingParameter", "GroupDescription")
	wantRefusal(t, "sg- name", create("sg-x", "d", b.vpc.ID), "InvalidParameterValue", "")
	wantRefusal(t, "bad characters", create("x", "déjà", b.vpc.ID), "InvalidParameterValue", "")
	wantRefusal(t, "no VPC", create("x", "d", ""), "VPCIdNotSpecified", "")
	wantRefusal(t, "unknown VPC", create("x", "d", "vpc-00000000"), "InvalidVpcID.NotFound", "The vpc ID 'vpc-00000000' does not exist")
	wantRefusal(t, "delete default", remove(def), "CannotDelete", "")
	wantRefusal(t, "delete unknown", remove("sg-00000000"), "InvalidGroup.NotFound", "")
	i := b.run(RunInstancesInput{GroupIDs: []string{web}})
	wantRefusal(t, "delete a held group", remove(web), "DependencyViolation", "resource "+web+" has a dependent object")
	if err := b.r.Interfaces().ModifyNetworkInterfaceGroups(i.NetworkInterfaces[0].ID, []string{def}); err != nil {
		t.Fatal(err)
	}
	if err := b.allow(def, fromGroup(tcp(80), web)); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "delete a referenced group", remove(web), "DependencyViolation", "")
	if err := b.allow(web, fromGroup(tcp(80), web)); err != nil {
		t.Fatal(err)
	}
	must[RevokeResult](t)(b.r.Groups().RevokeSecurityGroup(RevokeInput{GroupID: def, Permissions: []Permission{fromGroup(tcp(80), web)}}))
	if err := remove(web); err != nil {
		t.Errorf("a group that only references itself: %v", err)
	}
}

func TestRuleQuota(t *testing.T) {
	b := newBench(t, Options{})
	if err := b.w.SetQuotas(acctA, Quotas{RulesPerGroup: 4, GroupsPerInterface: 2, GroupsPerRegion: 6, TagsPerResource: 2}); err != nil {
		t.Fatal(err)
	}
	web, db, peer := b.group("web"), b.group("db"), b.group("peer")
	const code = "RulesPerSecurityGroupLimitExceeded"
	// Three IPv4 rules and a reference fill IPv4; IPv6 has room for three.
	if err := b.allow(web, fromGroup(tcp(80, "10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8"), peer)); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "fifth IPv4", b.allow(web, tcp(81, "10.0.0.0/8")), code, "The maximum number of rules per security group has been reached.")
	wantRefusal(t, "second reference", b.allow(web, fromGroup(tcp(81), peer)), code, "")
	if err := b.allow(web, tcp(80, "2001:db8::/32", "2001:db9::/32", "2001:dba::/32")); err != nil {
		t.Errorf("three IPv6 rules beside one reference: %v", err)
	}
	wantRefusal(t, "fifth IPv6", b.allow(web, tcp(81, "2001:db8::/32")), code, "")
	// A prefix list counts with its size, not with its entries; egress is counted apart and has one
	// rule already.
	list := must[PrefixList](t)(b.r.Lists().CreatePrefixList(CreatePrefixListInput{Name: "l", Family: "IPv4", MaxEntries: 3, Entries: []EntrySpec{{CIDR: "192.0.2.0/24"}}}))
	perm := Permission{Protocol: "-1", PrefixLists: []PrefixListPeer{{PrefixListID: list.ID}}}
	must[[]SecurityGroupRule](t)(b.r.Groups().AuthorizeSecurityGroup(AuthorizeInput{GroupID: db, Egress: true, Permissions: []Permission{perm}}))
	_, err := b.r.Groups().AuthorizeSecurityGroup(AuthorizeInput{GroupID: db, Egress: true, Permissions: []Permission{tcp(80, "10.0.0.0/8")}})
	wantRefusal(t, "beside a list of three", err, code, "")
	four := 4
	_, err = b.r.Lists().ModifyPrefixList(ModifyPrefixListInput{PrefixListID: list.ID, MaxEntries: &four})
	wantRefusal(t, "grow a referenced list", err, code, "")
	wantRefusal(t, "third group", func() error {
		_, err := b.r.InstanceCalls().RunInstances(RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: b.subnet[0].ID, GroupIDs: []string{web, db, peer}})
		return err
	}(), "SecurityGroupsPerInterfaceLimitExceeded", "")
	b.group("fifth")
	b.group("sixth")
	_, err = b.r.Groups().CreateSecurityGroup(CreateSecurityGroupInput{Name: "seventh", Description: "d", VPCID: b.vpc.ID})
	wantRefusal(t, "seventh group", err, "SecurityGroupLimitExceeded", "")
	if err := b.r.CreateTags([]string{web}, []Tag{{"a", "1"}, {"b", "2"}}); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "third tag", b.r.CreateTags([]string{db, web}, []Tag{{"c", "3"}}), "TagLimitExceeded", "")
	if tags := must[[]SecurityGroup](t)(b.r.SecurityGroups(db))[0].Tags; len(tags) != 0 {
		t.Errorf("a refused CreateTags tagged %s: %v", db, tags)
	}
	wantRefusal(t, "quota product", b.w.SetQuotas(acctA, Quotas{RulesPerGroup: 101, GroupsPerInterface: 10}), "InvalidParameterValue", "1010")
}

func TestModifyRules(t *testing.T) {
	b := newBench(t, Options{})
	web, db := b.group("web"), b.group("db")
	rules := must[[]SecurityGroupRule](
		t,
	)(
		b.r.Groups().AuthorizeSecurityGroup(AuthorizeInput{GroupID: web, Permissions: []Permission{fromGroup(tcp(80, "10.0.0.0/8", "11.0.0.0/8"), db)}, RuleTags: Tags{"k": "v"}}),
	)
	a, c := rules[0], rules[1]
	update := func(us ...RuleUpdate) error { return b.r.Groups().ModifySecurityGroupRules(web, us) }
	good := RuleUpdate{RuleID: a.ID, Protocol: text("tcp"), FromPort: num(443), ToPort: num(443), CIDRIPv4: "10.0.0.0/8", Description: text("tls")}
	change := func(f func(*RuleUpdate)) RuleUpdate { u := good; f(&u); return u }
	for what, x := range map[string]struct {
		u             RuleUpdate
		code, message string
	}{
		"unknown rule": {change(func(u *RuleUpdate) { u.RuleID = "sgr-00000000" }), "InvalidSecurityGroupRuleId.NotFound", "'sgr-00000000' does not exist"},
		"no protocol":  {change(func(u *RuleUpdate) { u.Protocol = nil }), "InvalidParameterValue", "Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly."},
		"one port":     {change(func(u *RuleUpdate) { u.ToPort = nil }), "InvalidParameterValue", "Invalid value for portRange. Must specify both from and to ports with TCP/UDP."},
		"no peer":      {change(func(u *RuleUpdate) { u.CIDRIPv4 = "" }), "MissingParameter", "The request must contain exactly one of: cidrIp, cidrIpv6, prefixListId, or referencedGroupId"},
		"two peers":    {change(func(u *RuleUpdate) { u.CIDRIPv6 = "::/0" }), "InvalidParameterCombination", "Only one of cidrIp, cidrIpv6, prefixListId, or referencedGroupId can be specified"},
		"other kind":   {change(func(u *RuleUpdate) { u.CIDRIPv4, u.ReferencedGroupID = "", db }), "InvalidParameterValue", "cannot be changed"},
		"duplicate":    {change(func(u *RuleUpdate) { u.FromPort, u.ToPort, u.CIDRIPv4 = num(80), num(80), "11.0.0.0/8" }), "InvalidPermission.Duplicate", ""},
	} {
		wantRefusal(t, what, update(x.u), x.code, x.message)
	}
	wantRefusal(t, "unknown group", b.r.Groups().ModifySecurityGroupRules("sg-00000000", []RuleUpdate{good}), "InvalidGroup.NotFound", "")
	// Two rules may swap their values in one call.
	if err := update(change(func(u *RuleUpdate) { u.FromPort, u.ToPort, u.CIDRIPv4 = num(80), num(80), "11.0.0.0/8" }),
		RuleUpdate{RuleID: c.ID, Protocol: text("tcp"), FromPort: num(80), ToPort: num(80), CIDRIPv4: "10.0.0.0/8"}); err != nil {
		t.Fatal(err)
	}
	got := must[[]SecurityGroupRule](t)(b.r.SecurityGroupRules(a.ID))[0]
	if got.String() != "tcp 80 from 11.0.0.0/8" || got.Description != "tls" || got.Tags["k"] != "v" {
		t.Errorf("after the swap: %+v", got)
	}
	if err := b.r.Groups().UpdateSecurityGroupRuleDescriptions(
		UpdateDescriptionsInput{GroupID: web, Rules: []RuleDescription{{RuleID: a.ID}, {RuleID: c.ID, Description: text("two")}}},
	); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{a.ID: "", c.ID: "two"} {
		if got := must[[]SecurityGroupRule](t)(b.r.SecurityGroupRules(id))[0].Description; got != want {
			t.Errorf("description of %s is %q, want %q", id, got, want)
		}
	}
	err := b.r.Groups().UpdateSecurityGroupRuleDescriptions(UpdateDescriptionsInput{GroupID: web, Permissions: []Permission{tcp(99, "10.0.0.0/8")}})
	wantRefusal(t, "description of a missing rule", err, "InvalidPermission.NotFound", "")
}
