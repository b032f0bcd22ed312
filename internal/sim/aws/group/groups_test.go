package group_test

import (
	"fmt"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/sim/world/worldtest"
)

func TestNewGroupRules(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	g := b.Group("web")
	if got := fmt.Sprint(b.Rules(g)); got != "[all to 0.0.0.0/0 all to ::/0]" {
		t.Errorf("rules of a new group in a VPC with IPv6: %s", got)
	}
	v4 := worldtest.Must[aws.VPC](t)(b.Region.Networks().CreateVPC(aws.CreateVPCInput{CIDR: "10.9.0.0/16"}))
	groups := worldtest.Must[[]aws.SecurityGroup](t)(b.Region.SecurityGroups())
	for _, g := range groups {
		if g.VPCID == v4.ID && (g.Name != "default" || fmt.Sprint(b.Rules(g.ID)) != fmt.Sprintf("[all from %s all to 0.0.0.0/0]", g.ID)) {
			t.Errorf("default group %+v", g)
		}
	}
	if v4.State != aws.StatePending || worldtest.Must[[]aws.VPC](t)(b.Region.VPCs(v4.ID))[0].State != aws.StateAvailable {
		t.Errorf("a new VPC is pending, then available")
	}
}

func TestAuthorizeAndRevoke(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	web, db := b.Group("web"), b.Group("db")
	added := worldtest.Must[[]aws.SecurityGroupRule](t)(b.Region.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: web, RuleTags: aws.Tags{"k": "v"},
		Permissions: []aws.Permission{worldtest.FromGroup(worldtest.TCP(22, "100.68.0.18/18", "2001:db8::1/32"), db)}}))
	if len(added) != 3 || added[0].CIDR.String() != "100.68.0.0/18" || added[2].Group.UserID != worldtest.AccountA || added[1].Tags["k"] != "v" {
		t.Errorf("added %+v", added)
	}
	before := fmt.Sprint(b.Rules(web))
	for what, c := range map[string]struct {
		perms         []aws.Permission
		code, message string
	}{
		"duplicate after masking": {[]aws.Permission{worldtest.TCP(80, "10.0.0.0/8"), worldtest.TCP(22, "100.68.63.1/18")}, "InvalidPermission.Duplicate", `the specified rule "peer: 100.68.0.0/18, TCP, from port: 22, to port: 22, ALLOW" already exists`},
		"duplicate group":         {[]aws.Permission{worldtest.FromGroup(worldtest.TCP(22), db)}, "InvalidPermission.Duplicate", "peer: " + db},
		"by number":               {[]aws.Permission{{Protocol: "6", FromPort: worldtest.Num(22), ToPort: worldtest.Num(22), CIDRs: []aws.CIDRPeer{{CIDR: "100.68.0.0/18"}}}}, "InvalidPermission.Duplicate", "TCP"},
		"twice in one call":       {[]aws.Permission{worldtest.TCP(80, "10.0.0.0/8"), worldtest.TCP(80, "10.1.0.0/8")}, "InvalidParameterValue", "The same permission must not appear multiple times"},
		"unknown group":           {[]aws.Permission{worldtest.FromGroup(worldtest.TCP(80), "sg-00000000")}, "InvalidGroup.NotFound", "The security group 'sg-00000000' does not exist"},
		"malformed group":         {[]aws.Permission{worldtest.FromGroup(worldtest.TCP(80), "foobar")}, "InvalidGroupId.Malformed", "The security group ID 'foobar' is malformed"},
		"unknown list":            {[]aws.Permission{{Protocol: "-1", PrefixLists: []aws.PrefixListPeer{{PrefixListID: "pl-00000000"}}}}, "InvalidPrefixListID.NotFound", ""},
		"bad block":               {[]aws.Permission{worldtest.TCP(80, "10.0.0.0/33")}, "InvalidParameterValue", "CIDR block 10.0.0.0/33 is malformed"},
		"no ports":                {[]aws.Permission{{Protocol: "tcp", CIDRs: []aws.CIDRPeer{{CIDR: "10.0.0.0/8"}}}}, "InvalidParameterValue", "Must specify both from and to ports with TCP/UDP."},
		"reversed ports":          {[]aws.Permission{{Protocol: "udp", FromPort: worldtest.Num(9), ToPort: worldtest.Num(8), CIDRs: []aws.CIDRPeer{{CIDR: "10.0.0.0/8"}}}}, "InvalidParameterValue", "(9:8)"},
		"no protocol":             {[]aws.Permission{{CIDRs: []aws.CIDRPeer{{CIDR: "10.0.0.0/8"}}}}, "InvalidParameterValue", "Invalid value 'null' for protocol."},
		"no peer":                 {[]aws.Permission{worldtest.TCP(80)}, "InvalidPermission.Malformed", ""},
		"bad description":         {[]aws.Permission{{Protocol: "-1", CIDRs: []aws.CIDRPeer{{CIDR: "10.0.0.0/8", Description: "a|b"}}}}, "InvalidParameterValue", "Invalid rule description."},
		"nothing":                 {nil, "MissingParameter", "ipPermissions"},
	} {
		worldtest.WantRefusal(t, what, b.Allow(web, c.perms...), c.code, c.message)
	}
	if after := fmt.Sprint(b.Rules(web)); after != before {
		t.Errorf("refused calls changed the rules: %s, before %s", after, before)
	}
	_, err := b.Region.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: web, Permissions: []aws.Permission{worldtest.TCP(22, "100.68.0.0/18"), worldtest.TCP(23, "10.0.0.0/8")}})
	worldtest.WantRefusal(t, "revoke a missing rule", err, "InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
	if after := fmt.Sprint(b.Rules(web)); after != before {
		t.Errorf("a refused revoke changed the rules to %s", after)
	}
	got := worldtest.Must[aws.RevokeResult](t)(b.Region.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: web, RuleIDs: []string{added[0].ID, added[2].ID}}))
	if len(got.Revoked) != 2 {
		t.Errorf("revoked %+v", got)
	}
	_, err = b.Region.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: web, RuleIDs: []string{added[0].ID}})
	worldtest.WantRefusal(t, "revoke again", err, "InvalidSecurityGroupRuleId.NotFound", "The security group rule ID '"+added[0].ID+"' does not exist")
	worldtest.Must[aws.RevokeResult](
		t,
	)(
		b.Region.Groups().RevokeSecurityGroup(
			aws.RevokeInput{GroupID: web, Egress: true, Permissions: []aws.Permission{{Protocol: "all", CIDRs: []aws.CIDRPeer{{CIDR: "0.0.0.0/0"}, {CIDR: "::/0", IPv6: true}}}}},
		),
	)
	if got := fmt.Sprint(b.Rules(web)); got != "[tcp 22 from 2001:db8::/32]" {
		t.Errorf("rules left: %s", got)
	}
}

func TestRevokeInDefaultVPC(t *testing.T) {
	s := worldtest.New(t, world.Options{}).World.State()
	s.Regions[1].VPCs[0].IsDefault = true
	w := worldtest.Must[*world.World](t)(world.New(s, world.Options{}))
	r := worldtest.Must[*world.Region](t)(w.Region(worldtest.AccountA, worldtest.West))
	g := worldtest.Must[aws.SecurityGroup](t)(r.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "web", Description: "d"})).ID
	got := worldtest.Must[aws.RevokeResult](t)(r.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupName: "web", Permissions: []aws.Permission{worldtest.TCP(80, "10.0.0.0/8")}}))
	if len(got.Unknown) != 1 || len(got.Revoked) != 0 || got.Unknown[0].CIDRs[0].CIDR != "10.0.0.0/8" {
		t.Errorf("revoke in a default VPC: %+v", got)
	}
	if id := worldtest.Must[string](t)(r.Groups().DeleteSecurityGroup("", "web")); id != g {
		t.Errorf("deleted %s by name, want %s", id, g)
	}
}

func TestGroupRefusals(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	web := b.Group("web")
	b.Group("db")
	def := worldtest.Must[[]aws.SecurityGroup](t)(b.Region.SecurityGroups())[0].ID
	for _, g := range worldtest.Must[[]aws.SecurityGroup](t)(b.Region.SecurityGroups()) {
		if g.Name == "default" {
			def = g.ID
		}
	}
	create := func(name, description, vpc string) error {
		_, err := b.Region.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: name, Description: description, VPCID: vpc})
		return err
	}
	remove := func(id string) error {
		_, err := b.Region.Groups().DeleteSecurityGroup(id, "")
		return err
	}
	worldtest.WantRefusal(t, "same name", create("WEB", "d", b.VPC.ID), "InvalidGroup.Duplicate", "The security group 'WEB' already exists for VPC '"+b.VPC.ID+"'")
	worldtest.WantRefusal(t, "reserved", create("default", "d", b.VPC.ID), "InvalidGroup.Reserved", "")
	worldtest.WantRefusal(t, "no description", create("x", "", b.VPC.ID), "MissingParameter", "GroupDescription")
	worldtest.WantRefusal(t, "sg- name", create("sg-x", "d", b.VPC.ID), "InvalidParameterValue", "")
	worldtest.WantRefusal(t, "bad characters", create("x", "déjà", b.VPC.ID), "InvalidParameterValue", "")
	worldtest.WantRefusal(t, "no VPC", create("x", "d", ""), "VPCIdNotSpecified", "")
	worldtest.WantRefusal(t, "unknown VPC", create("x", "d", "vpc-00000000"), "InvalidVpcID.NotFound", "The vpc ID 'vpc-00000000' does not exist")
	worldtest.WantRefusal(t, "delete default", remove(def), "CannotDelete", "")
	worldtest.WantRefusal(t, "delete unknown", remove("sg-00000000"), "InvalidGroup.NotFound", "")
	i := b.Run(aws.RunInstancesInput{GroupIDs: []string{web}})
	worldtest.WantRefusal(t, "delete a held group", remove(web), "DependencyViolation", "resource "+web+" has a dependent object")
	if err := b.Region.Interfaces().ModifyNetworkInterfaceGroups(i.NetworkInterfaces[0].ID, []string{def}); err != nil {
		t.Fatal(err)
	}
	if err := b.Allow(def, worldtest.FromGroup(worldtest.TCP(80), web)); err != nil {
		t.Fatal(err)
	}
	worldtest.WantRefusal(t, "delete a referenced group", remove(web), "DependencyViolation", "")
	if err := b.Allow(web, worldtest.FromGroup(worldtest.TCP(80), web)); err != nil {
		t.Fatal(err)
	}
	worldtest.Must[aws.RevokeResult](t)(b.Region.Groups().RevokeSecurityGroup(aws.RevokeInput{GroupID: def, Permissions: []aws.Permission{worldtest.FromGroup(worldtest.TCP(80), web)}}))
	if err := remove(web); err != nil {
		t.Errorf("a group that only references itself: %v", err)
	}
}

func TestRuleQuota(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	if err := b.World.SetQuotas(worldtest.AccountA, aws.Quotas{RulesPerGroup: 4, GroupsPerInterface: 2, GroupsPerRegion: 6, TagsPerResource: 2}); err != nil {
		t.Fatal(err)
	}
	web, db, peer := b.Group("web"), b.Group("db"), b.Group("peer")
	const code = "RulesPerSecurityGroupLimitExceeded"
	// Three IPv4 rules and a reference fill IPv4; IPv6 has room for three.
	if err := b.Allow(web, worldtest.FromGroup(worldtest.TCP(80, "10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8"), peer)); err != nil {
		t.Fatal(err)
	}
	worldtest.WantRefusal(t, "fifth IPv4", b.Allow(web, worldtest.TCP(81, "10.0.0.0/8")), code, "The maximum number of rules per security group has been reached.")
	worldtest.WantRefusal(t, "second reference", b.Allow(web, worldtest.FromGroup(worldtest.TCP(81), peer)), code, "")
	if err := b.Allow(web, worldtest.TCP(80, "2001:db8::/32", "2001:db9::/32", "2001:dba::/32")); err != nil {
		t.Errorf("three IPv6 rules beside one reference: %v", err)
	}
	worldtest.WantRefusal(t, "fifth IPv6", b.Allow(web, worldtest.TCP(81, "2001:db8::/32")), code, "")
	// A prefix list counts with its size, not with its entries; egress is counted apart and has one
	// rule already.
	list := worldtest.Must[aws.PrefixList](t)(b.Region.Lists().CreatePrefixList(aws.CreatePrefixListInput{Name: "l", Family: "IPv4", MaxEntries: 3, Entries: []aws.EntrySpec{{CIDR: "192.0.2.0/24"}}}))
	perm := aws.Permission{Protocol: "-1", PrefixLists: []aws.PrefixListPeer{{PrefixListID: list.ID}}}
	worldtest.Must[[]aws.SecurityGroupRule](t)(b.Region.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: db, Egress: true, Permissions: []aws.Permission{perm}}))
	_, err := b.Region.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: db, Egress: true, Permissions: []aws.Permission{worldtest.TCP(80, "10.0.0.0/8")}})
	worldtest.WantRefusal(t, "beside a list of three", err, code, "")
	four := 4
	_, err = b.Region.Lists().ModifyPrefixList(aws.ModifyPrefixListInput{PrefixListID: list.ID, MaxEntries: &four})
	worldtest.WantRefusal(t, "grow a referenced list", err, code, "")
	worldtest.WantRefusal(t, "third group", func() error {
		_, err := b.Region.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: b.Subnets[0].ID, GroupIDs: []string{web, db, peer}})
		return err
	}(), "SecurityGroupsPerInterfaceLimitExceeded", "")
	b.Group("fifth")
	b.Group("sixth")
	_, err = b.Region.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "seventh", Description: "d", VPCID: b.VPC.ID})
	worldtest.WantRefusal(t, "seventh group", err, "SecurityGroupLimitExceeded", "")
	if err := b.Region.CreateTags([]string{web}, []aws.Tag{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}); err != nil {
		t.Fatal(err)
	}
	worldtest.WantRefusal(t, "third tag", b.Region.CreateTags([]string{db, web}, []aws.Tag{{Key: "c", Value: "3"}}), "TagLimitExceeded", "")
	if tags := worldtest.Must[[]aws.SecurityGroup](t)(b.Region.SecurityGroups(db))[0].Tags; len(tags) != 0 {
		t.Errorf("a refused CreateTags tagged %s: %v", db, tags)
	}
	worldtest.WantRefusal(t, "quota product", b.World.SetQuotas(worldtest.AccountA, aws.Quotas{RulesPerGroup: 101, GroupsPerInterface: 10}), "InvalidParameterValue", "1010")
}

func TestModifyRules(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	web, db := b.Group("web"), b.Group("db")
	rules := worldtest.Must[[]aws.SecurityGroupRule](
		t,
	)(
		b.Region.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: web, Permissions: []aws.Permission{worldtest.FromGroup(worldtest.TCP(80, "10.0.0.0/8", "11.0.0.0/8"), db)}, RuleTags: aws.Tags{"k": "v"}}),
	)
	a, c := rules[0], rules[1]
	update := func(us ...aws.RuleUpdate) error { return b.Region.Groups().ModifySecurityGroupRules(web, us) }
	good := aws.RuleUpdate{RuleID: a.ID, Protocol: worldtest.Text("tcp"), FromPort: worldtest.Num(443), ToPort: worldtest.Num(443), CIDRIPv4: "10.0.0.0/8", Description: worldtest.Text("tls")}
	change := func(f func(*aws.RuleUpdate)) aws.RuleUpdate { u := good; f(&u); return u }
	for what, x := range map[string]struct {
		u             aws.RuleUpdate
		code, message string
	}{
		"unknown rule": {change(func(u *aws.RuleUpdate) { u.RuleID = "sgr-00000000" }), "InvalidSecurityGroupRuleId.NotFound", "'sgr-00000000' does not exist"},
		"no protocol":  {change(func(u *aws.RuleUpdate) { u.Protocol = nil }), "InvalidParameterValue", "Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly."},
		"one port":     {change(func(u *aws.RuleUpdate) { u.ToPort = nil }), "InvalidParameterValue", "Invalid value for portRange. Must specify both from and to ports with TCP/UDP."},
		"no peer":      {change(func(u *aws.RuleUpdate) { u.CIDRIPv4 = "" }), "MissingParameter", "The request must contain exactly one of: cidrIp, cidrIpv6, prefixListId, or referencedGroupId"},
		"two peers":    {change(func(u *aws.RuleUpdate) { u.CIDRIPv6 = "::/0" }), "InvalidParameterCombination", "Only one of cidrIp, cidrIpv6, prefixListId, or referencedGroupId can be specified"},
		"other kind":   {change(func(u *aws.RuleUpdate) { u.CIDRIPv4, u.ReferencedGroupID = "", db }), "InvalidParameterValue", "cannot be changed"},
		"duplicate": {change(func(u *aws.RuleUpdate) {
			u.FromPort, u.ToPort, u.CIDRIPv4 = worldtest.Num(80), worldtest.Num(80), "11.0.0.0/8"
		}), "InvalidPermission.Duplicate", ""},
	} {
		worldtest.WantRefusal(t, what, update(x.u), x.code, x.message)
	}
	worldtest.WantRefusal(t, "unknown group", b.Region.Groups().ModifySecurityGroupRules("sg-00000000", []aws.RuleUpdate{good}), "InvalidGroup.NotFound", "")
	// Two rules may swap their values in one call.
	if err := update(change(func(u *aws.RuleUpdate) {
		u.FromPort, u.ToPort, u.CIDRIPv4 = worldtest.Num(80), worldtest.Num(80), "11.0.0.0/8"
	}),
		aws.RuleUpdate{RuleID: c.ID, Protocol: worldtest.Text("tcp"), FromPort: worldtest.Num(80), ToPort: worldtest.Num(80), CIDRIPv4: "10.0.0.0/8"}); err != nil {
		t.Fatal(err)
	}
	got := worldtest.Must[[]aws.SecurityGroupRule](t)(b.Region.SecurityGroupRules(a.ID))[0]
	if got.String() != "tcp 80 from 11.0.0.0/8" || got.Description != "tls" || got.Tags["k"] != "v" {
		t.Errorf("after the swap: %+v", got)
	}
	if err := b.Region.Groups().UpdateSecurityGroupRuleDescriptions(
		aws.UpdateDescriptionsInput{GroupID: web, Rules: []aws.RuleDescription{{RuleID: a.ID}, {RuleID: c.ID, Description: worldtest.Text("two")}}},
	); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{a.ID: "", c.ID: "two"} {
		if got := worldtest.Must[[]aws.SecurityGroupRule](t)(b.Region.SecurityGroupRules(id))[0].Description; got != want {
			t.Errorf("description of %s is %q, want %q", id, got, want)
		}
	}
	err := b.Region.Groups().UpdateSecurityGroupRuleDescriptions(aws.UpdateDescriptionsInput{GroupID: web, Permissions: []aws.Permission{worldtest.TCP(99, "10.0.0.0/8")}})
	worldtest.WantRefusal(t, "description of a missing rule", err, "InvalidPermission.NotFound", "")
}
