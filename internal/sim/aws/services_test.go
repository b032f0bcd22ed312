package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestVisibilityDelay(t *testing.T) {
	b := newBench(t, Options{VisibilityDelay: 10 * time.Second})
	g := b.group("late")
	before := len(must[[]SecurityGroup](t)(b.r.SecurityGroups()))
	_, err := b.r.SecurityGroups(g)
	wantRefusal(t, "describe", err, "InvalidGroup.NotFound", "The security group '"+g+"' does not exist")
	wantRefusal(t, "authorize", b.allow(g, tcp(80, "10.0.0.0/8")), "InvalidGroup.NotFound", "")
	wantRefusal(t, "tag", b.r.CreateTags([]string{g}, []Tag{{"k", "v"}}), "InvalidGroup.NotFound", "")
	_, err = b.r.Groups().DeleteSecurityGroup(g, "")
	wantRefusal(t, "delete", err, "InvalidGroup.NotFound", "")
	_, err = b.r.InstanceCalls().RunInstances(RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: b.subnet[0].ID, GroupIDs: []string{g}})
	wantRefusal(t, "run with it", err, "InvalidGroup.NotFound", "")
	_, err = b.r.Groups().CreateSecurityGroup(CreateSecurityGroupInput{Name: "late", Description: "d", VPCID: b.vpc.ID})
	wantRefusal(t, "create again", err, "InvalidGroup.Duplicate", "")
	v := must[VPC](t)(b.r.Networks().CreateVPC(CreateVPCInput{CIDR: "10.8.0.0/16"}))
	_, err = b.r.Networks().CreateSubnet(CreateSubnetInput{VPCID: v.ID, CIDR: "10.8.0.0/24"})
	wantRefusal(t, "subnet of a new VPC", err, "InvalidVpcID.NotFound", "")
	b.clock.advance(10 * time.Second)
	if err := b.allow(g, tcp(80, "10.0.0.0/8")); err != nil {
		t.Errorf("after the delay: %v", err)
	}
	if after := len(must[[]SecurityGroup](t)(b.r.SecurityGroups())); after != before+2 {
		t.Errorf("%d groups are visible, before %d: expected the group and the default group of the VPC", after, before)
	}
}

func TestTags(t *testing.T) {
	b := newBench(t, Options{})
	g := b.group("web")
	rule := must[[]SecurityGroupRule](t)(b.r.Groups().AuthorizeSecurityGroup(AuthorizeInput{GroupID: g, Permissions: []Permission{tcp(80, "10.0.0.0/8")}}))[0].ID
	i := b.run(RunInstancesInput{})
	all := []string{b.vpc.ID, b.subnet[0].ID, g, rule, i.ID, i.NetworkInterfaces[0].ID}
	if err := b.r.CreateTags(all, []Tag{{"a", "1"}, {"b", "2"}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, x := range b.r.Tags() {
		if x.Key == "a" && x.Value == "1" && x.ResourceType == ResourceType(x.ResourceID) && x.ResourceType != "" {
			n++
		}
	}
	if n != len(all) {
		t.Errorf("%d resources carry the tag, want %d", n, len(all))
	}
	if err := b.r.DeleteTags([]string{g, rule}, []TagKey{{Key: "a", Value: text("other")}, {Key: "b"}}); err != nil {
		t.Fatal(err)
	}
	if got := must[[]SecurityGroup](t)(b.r.SecurityGroups(g))[0].Tags; fmt.Sprint(got) != "map[a:1]" {
		t.Errorf("tags left: %v", got)
	}
	if err := b.r.DeleteTags([]string{g}, nil); err != nil || len(must[[]SecurityGroup](t)(b.r.SecurityGroups(g))[0].Tags) != 0 {
		t.Errorf("delete without keys removes all tags (%v)", err)
	}
	wantRefusal(t, "reserved", b.r.CreateTags([]string{g}, []Tag{{"aws:x", ""}}), "InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
	wantRefusal(t, "unknown kind", b.r.CreateTags([]string{"vol-12345678"}, []Tag{{"a", ""}}), "InvalidID", "The ID 'vol-12345678' is not valid")
	wantRefusal(t, "unknown interface", b.r.DeleteTags([]string{"eni-12345678"}, nil), "InvalidNetworkInterfaceID.NotFound", "")
	wantRefusal(t, "no resource", b.r.CreateTags(nil, []Tag{{"a", ""}}), "MissingParameter", "")
}

func TestPrefixLists(t *testing.T) {
	b := newBench(t, Options{TransitionDelay: time.Minute})
	in := CreatePrefixListInput{Name: "l", Family: "IPv4", MaxEntries: 3, ClientToken: "c", Entries: []EntrySpec{{CIDR: "192.0.2.1/24", Description: "x"}}}
	l := must[PrefixList](t)(b.r.Lists().CreatePrefixList(in))
	if again := must[PrefixList](t)(b.r.Lists().CreatePrefixList(in)); again.ID != l.ID {
		t.Errorf("the same token made %s and %s", l.ID, again.ID)
	}
	one, two := 1, 2
	change := func(m ModifyPrefixListInput) error {
		m.PrefixListID = l.ID
		_, err := b.r.Lists().ModifyPrefixList(m)
		return err
	}
	wantRefusal(t, "while creating", change(ModifyPrefixListInput{CurrentVersion: &one, Add: []EntrySpec{{CIDR: "10.0.0.0/8"}}}), "IncorrectState", "(create-in-progress)")
	b.clock.advance(time.Minute)
	wantRefusal(
		t,
		"other version",
		change(ModifyPrefixListInput{CurrentVersion: &two, Add: []EntrySpec{{CIDR: "10.0.0.0/8"}}}),
		"PrefixListVersionMismatch",
		"The prefix list has the incorrect version number.",
	)
	wantRefusal(t, "both at once", change(ModifyPrefixListInput{CurrentVersion: &one, MaxEntries: &two, Add: []EntrySpec{{CIDR: "10.0.0.0/8"}}}), "InvalidParameterValue", "")
	wantRefusal(t, "other family", change(ModifyPrefixListInput{CurrentVersion: &one, Add: []EntrySpec{{CIDR: "::/0"}}}), "InvalidParameterValue", "malformed")
	if err := change(ModifyPrefixListInput{CurrentVersion: &one, Add: []EntrySpec{{CIDR: "10.0.0.0/8"}}, Remove: []string{"192.0.2.0/24"}}); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "while modifying", change(ModifyPrefixListInput{MaxEntries: &two}), "IncorrectState", "(modify-in-progress)")
	b.clock.advance(time.Minute)
	now, was := must[[]PrefixListEntry](t)(b.r.Lists().PrefixListEntries(l.ID, 0)), must[[]PrefixListEntry](t)(b.r.Lists().PrefixListEntries(l.ID, 1))
	if fmt.Sprint(now) != "[{10.0.0.0/8 }]" || fmt.Sprint(was) != "[{192.0.2.0/24 x}]" {
		t.Errorf("entries %v, before %v", now, was)
	}
	g := b.group("web")
	if err := b.allow(g, Permission{Protocol: "-1", PrefixLists: []PrefixListPeer{{PrefixListID: l.ID}}}); err != nil {
		t.Fatal(err)
	}
	_, err := b.r.Lists().DeletePrefixList(l.ID)
	wantRefusal(t, "delete a referenced list", err, "DependencyViolation", "")
	must[string](t)(b.r.Groups().DeleteSecurityGroup(g, ""))
	must[PrefixList](t)(b.r.Lists().DeletePrefixList(l.ID))
	b.clock.advance(time.Minute)
	_, err = b.r.Lists().PrefixLists(l.ID)
	wantRefusal(t, "after the deletion", err, "InvalidPrefixListID.NotFound", "")
}

func TestPeering(t *testing.T) {
	b := newBench(t, Options{})
	rb := must[*Region](t)(b.w.Region(acctB, west))
	far := must[VPC](t)(Networks{rb.site}.CreateVPC(CreateVPCInput{CIDR: "10.7.0.0/16"}))
	sub := must[Subnet](t)(Networks{rb.site}.CreateSubnet(CreateSubnetInput{VPCID: far.ID, CIDR: "10.7.0.0/24"}))
	theirs := must[SecurityGroup](t)(Groups{rb.site}.CreateSecurityGroup(CreateSecurityGroupInput{Name: "theirs", Description: "d", VPCID: far.ID})).ID
	mine := b.group("mine")
	refer := func(user string) error {
		p := tcp(80)
		p.Groups = []GroupRef{{GroupID: theirs, UserID: user}}
		return b.allow(mine, p)
	}
	wantRefusal(t, "without account", refer(""), "InvalidGroup.NotFound", "does not exist")
	wantRefusal(t, "without peering", refer(acctB), "InvalidGroup.NotFound", "different networks")
	pcx := must[PeeringConnection](
		t,
	)(
		b.w.AddPeering(PeeringConnection{Requester: PeeringVPC{VPCID: b.vpc.ID, Account: acctA, Region: west}, Accepter: PeeringVPC{VPCID: far.ID, Account: acctB, Region: west}}),
	)
	if err := refer(acctB); err != nil {
		t.Fatal(err)
	}
	if got := must[[]PeeringConnection](t)(rb.Peerings().PeeringConnections()); len(got) != 1 || got[0].Accepter.CIDRs[0].String() != "10.7.0.0/16" {
		t.Errorf("the other account sees %+v", got)
	}
	server := b.run(RunInstancesInput{GroupIDs: []string{mine}}).NetworkInterfaces[0]
	client := must[Reservation](t)(InstanceCalls{rb.site}.RunInstances(RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: sub.ID, GroupIDs: []string{theirs}})).Instances[0].NetworkInterfaces[0]
	flow := Flow{Src: End{NIC: client.ID}, Dst: End{NIC: server.ID}, Protocol: 6, Port: 80}
	byAddress := Flow{Src: End{Addr: client.PrivateIPs[0].Addr}, Dst: End{NIC: server.ID}, Protocol: 6, Port: 80}
	for _, status := range []string{"active", "deleted", "active"} {
		if err := b.w.SetPeeringStatus(pcx.ID, status); err != nil {
			t.Fatal(err)
		}
		for _, f := range []Flow{flow, byAddress} {
			if v := must[Verdict](t)(b.w.Allowed(f)); v.Allowed != (status == "active") {
				t.Errorf("peering %s: %s", status, v.Reason)
			}
		}
		if got := must[[]SecurityGroup](t)(b.r.SecurityGroups(mine))[0].Rules[2].Group.PeeringStatus; got != status {
			t.Errorf("the rule shows peering status %q, want %q", got, status)
		}
	}
	// A reference from the peer VPC does not keep a group: the rule becomes stale, and matches
	// nothing.
	if err := (Interfaces{rb.site}).ModifyNetworkInterfaceGroups(client.ID, []string{defaultOf(t, rb, far.ID)}); err != nil {
		t.Fatal(err)
	}
	must[string](t)(Groups{rb.site}.DeleteSecurityGroup(theirs, ""))
	if v := must[Verdict](t)(b.w.Allowed(flow)); v.Allowed {
		t.Errorf("stale rule: %s", v.Reason)
	}
	if rules := b.rules(mine); rules[2] != "tcp 80 from "+theirs {
		t.Errorf("the stale rule is gone: %v", rules)
	}
	if _, err := New(b.w.State(), Options{}); err != nil {
		t.Errorf("a state with a stale rule: %v", err)
	}
}

func defaultOf(t *testing.T, r *Region, vpc string) string {
	t.Helper()
	for _, g := range must[[]SecurityGroup](t)(r.SecurityGroups()) {
		if g.VPCID == vpc && g.Name == "default" {
			return g.ID
		}
	}
	t.Fatal("no default group")
	return ""
}

func TestAllowed(t *testing.T) {
	b := newBench(t, Options{})
	web, db, ping := b.group("web"), b.group("db"), b.group("ping")
	public := true
	w := b.run(RunInstancesInput{Interfaces: []InterfaceSpec{{SubnetID: b.subnet[0].ID, GroupIDs: []string{web, ping}, AssociatePublicIP: &public, IPv6Count: 1}}}).NetworkInterfaces[0]
	d := b.run(RunInstancesInput{Interfaces: []InterfaceSpec{{SubnetID: b.subnet[1].ID, GroupIDs: []string{db}, AssociatePublicIP: &public, IPv6Count: 1, SecondaryIPs: []string{"10.0.1.99"}}}}).NetworkInterfaces[0]
	icmp := Permission{Protocol: "icmp", FromPort: num(8), ToPort: num(-1), CIDRs: []CIDRPeer{{CIDR: "0.0.0.0/0"}}}
	icmp6 := Permission{Protocol: "58", CIDRs: []CIDRPeer{{CIDR: "::/0", IPv6: true}}}
	for g, perms := range map[string][]Permission{web: {tcp(80, "0.0.0.0/0", "::/0"), tcp(22, "203.0.113.0/24")}, db: {fromGroup(tcp(5432), web)}, ping: {icmp, icmp6}} {
		if err := b.allow(g, perms...); err != nil {
			t.Fatal(err)
		}
	}
	out := func(s string) End { return End{Addr: netip.MustParseAddr(s)} }
	W, D := End{NIC: w.ID}, End{NIC: d.ID}
	for i, c := range []struct {
		f    Flow
		want bool
		why  string
	}{
		{Flow{Src: out("8.8.8.8"), Dst: W, Protocol: 6, Port: 80}, true, "of " + web + " (web) allows tcp 80 from 0.0.0.0/0"},
		{Flow{Src: out("8.8.8.8"), Dst: W, Protocol: 6, Port: 22}, false, "no rule of " + web + " (web), " + ping + " (ping) allows tcp 22 from 8.8.8.8"},
		{Flow{Src: out("203.0.113.9"), Dst: W, Protocol: 6, Port: 22}, true, ""},
		{Flow{Src: out("2001:db8::9"), Dst: W, Protocol: 6, Port: 80}, true, "from ::/0"},
		{Flow{Src: W, Dst: D, Protocol: 6, Port: 5432}, true, "from " + web},
		{Flow{Src: W, Dst: End{NIC: d.ID, Addr: netip.MustParseAddr("10.0.1.99")}, Protocol: 6, Port: 5432}, true, ""},
		{Flow{Src: W, Dst: out("10.0.1.99"), Protocol: 6, Port: 5432}, true, d.ID},
		{Flow{Src: End{NIC: w.ID, Addr: w.IPv6[0]}, Dst: End{NIC: d.ID}, Protocol: 6, Port: 5432}, true, ""},
		{Flow{Src: W, Dst: D, Protocol: 17, Port: 5432}, false, "udp 5432"},
		{Flow{Src: D, Dst: W, Protocol: 6, Port: 80}, true, ""},
		{Flow{Src: W, Dst: End{Addr: d.PrivateIPs[0].Public}, Protocol: 6, Port: 5432}, false, w.PrivateIPs[0].Public.String()},
		{Flow{Src: D, Dst: End{Addr: w.PrivateIPs[0].Public}, Protocol: 6, Port: 80}, true, ""},
		{Flow{Src: out("8.8.8.8"), Dst: W, Protocol: 1, ICMPType: 8, ICMPCode: 3}, true, ""},
		{Flow{Src: out("8.8.8.8"), Dst: W, Protocol: 1, ICMPType: 0}, false, "icmp 0/0"},
		{Flow{Src: out("2001:db8::9"), Dst: W, Protocol: 58, ICMPType: 128}, true, ""},
		{Flow{Src: W, Dst: W, Protocol: 6, Port: 1}, true, "never filters itself"},
		{Flow{Src: W, Dst: out("1.2.3.4"), Protocol: 132, Port: 1}, true, "all to 0.0.0.0/0"},
	} {
		v, err := b.w.Allowed(c.f)
		if err != nil || v.Allowed != c.want || !strings.Contains(v.Reason, c.why) {
			t.Errorf("%d: %s: %s (%v), want %t because %q", i, c.f, v.Reason, err, c.want, c.why)
		}
	}
	for what, f := range map[string]Flow{
		"no network interface": {Src: End{NIC: "eni-00000000"}, Dst: W, Protocol: 6},
		"neither":              {Src: out("8.8.8.8"), Dst: out("8.8.4.4"), Protocol: 6},
		"families":             {Src: End{NIC: w.ID, Addr: w.PrivateIPs[0].Addr}, Dst: End{NIC: d.ID, Addr: d.IPv6[0]}, Protocol: 6},
		"does not have":        {Src: End{NIC: w.ID, Addr: netip.MustParseAddr("10.0.1.99")}, Dst: D, Protocol: 6},
	} {
		if v, err := b.w.Allowed(f); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %+v, error %v", what, v, err)
		}
	}
}

func TestAssumeRole(t *testing.T) {
	b := newBench(t, Options{})
	caller, ok := b.w.Credential("AKIATESTTESTTESTTEST")
	if !ok || caller.ARN() != "arn:aws:iam::"+acctA+":user/nephele" {
		t.Fatalf("caller %+v", caller)
	}
	in := AssumeRoleInput{RoleARN: "arn:aws:iam::" + acctB + ":role/reader", SessionName: "s1", ExternalID: "x1"}
	c := must[Credential](t)(b.w.AssumeRole(caller, in))
	if c.Account != acctB || c.SessionToken == "" || c.ARN() != "arn:aws:sts::"+acctB+":assumed-role/reader/s1" || !c.Expires.Equal(b.clock.now().Add(time.Hour)) {
		t.Errorf("session %+v", c)
	}
	if found, ok := b.w.Credential(c.AccessKeyID); !ok || found != c {
		t.Errorf("the session key is not known: %+v", found)
	}
	for what, f := range map[string]func(*AssumeRoleInput){
		"external id": func(in *AssumeRoleInput) { in.ExternalID = "" },
		"role":        func(in *AssumeRoleInput) { in.RoleARN += "x" },
	} {
		bad := in
		f(&bad)
		_, err := b.w.AssumeRole(caller, bad)
		wantRefusal(t, what, err, "AccessDenied", "is not authorized to perform: sts:AssumeRole on resource: "+bad.RoleARN)
	}
	in.DurationSeconds = 7200
	_, err := b.w.AssumeRole(caller, in)
	wantRefusal(t, "too long", err, "ValidationError", "MaxSessionDuration")
	_, err = b.w.AssumeRole(c, AssumeRoleInput{RoleARN: in.RoleARN, SessionName: "s2", ExternalID: "x1"})
	wantRefusal(t, "untrusted caller", err, "AccessDenied", "")
	_, err = b.w.Region("999999999999", west)
	wantRefusal(t, "unknown account", err, "AuthFailure", "")
	_, err = b.w.Region(acctA, "mars-north-1")
	wantRefusal(t, "unknown region", err, "OptInRequired", "")
}

// TestStateGoesOn: a world that is built from the state of another, as JSON, goes on where that
// stopped.
func TestStateGoesOn(t *testing.T) {
	b := newBench(t, Options{TransitionDelay: time.Minute, Seed: 7})
	web := b.group("web")
	if err := b.allow(web, fromGroup(tcp(80, "10.0.0.0/8", "2001:db8::/32"), web)); err != nil {
		t.Fatal(err)
	}
	i := b.run(RunInstancesInput{GroupIDs: []string{web}, ClientToken: "tok"})
	data := must[[]byte](t)(json.Marshal(b.w.State()))
	var saved State
	if err := json.Unmarshal(data, &saved); err != nil {
		t.Fatal(err)
	}
	again := must[*World](t)(New(saved, Options{Clock: b.clock.now, TransitionDelay: time.Minute, Seed: 99}))
	if x, y := b.w.State(), again.State(); !reflect.DeepEqual(x, y) {
		t.Errorf("the loaded state differs:\n%+v\n%+v", x, y)
	}
	b.clock.advance(time.Minute)
	r := must[*Region](t)(again.Region(acctA, west))
	if got := must[[]Instance](t)(r.Instances(i.ID))[0].State; got != Running {
		t.Errorf("after the restart the instance is %s", got)
	}
	// Ids go on where they stopped: both worlds make up the same next one, which nothing has yet.
	g1 := b.group("next")
	g2 := must[SecurityGroup](t)(Groups{r.site}.CreateSecurityGroup(CreateSecurityGroupInput{Name: "next", Description: "test", VPCID: b.vpc.ID})).ID
	if g1 != g2 {
		t.Errorf("ids differ after the restart: %s and %s", g1, g2)
	}
}

// TestConcurrency mutates, reads and asks verdicts from many goroutines, with a hook that reads; it
// is for the race detector.
func TestConcurrency(t *testing.T) {
	b := newBench(t, Options{})
	i := b.run(RunInstancesInput{})
	nic := i.NetworkInterfaces[0].ID
	seen := b.w.State().Seq
	remove := b.w.OnMutation(func(m Mutation) {
		if m.Seq != seen+1 {
			t.Errorf("mutation %d after %d", m.Seq, seen)
		}
		seen = m.Seq
		if got := b.w.State().Seq; got != m.Seq {
			t.Errorf("a hook of mutation %d sees the state after %d", m.Seq, got)
		}
	})
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			g, err := b.r.Groups().CreateSecurityGroup(CreateSecurityGroupInput{Name: fmt.Sprint("g", k), Description: "d", VPCID: b.vpc.ID})
			if err != nil {
				t.Error(err)
				return
			}
			for n := range int32(20) {
				err := errors.Join(b.allow(g.ID, tcp(n, "10.0.0.0/8")), b.r.Interfaces().ModifyNetworkInterfaceGroups(nic, []string{g.ID}))
				_, err2 := b.r.SecurityGroups()
				_, err3 := b.w.Allowed(Flow{Src: End{Addr: netip.MustParseAddr("10.9.9.9")}, Dst: End{NIC: nic}, Protocol: 6, Port: int(n)})
				if err := errors.Join(err, err2, err3); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	remove()
	before := seen
	b.group("last")
	if seen != before {
		t.Error("a removed hook ran")
	}
}
