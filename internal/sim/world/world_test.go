package world_test

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

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/sim/world/worldtest"
)

func TestVisibilityDelay(t *testing.T) {
	b := worldtest.New(t, world.Options{VisibilityDelay: 10 * time.Second})
	g := b.Group("late")
	before := len(worldtest.Must[[]aws.SecurityGroup](t)(b.Region.SecurityGroups()))
	_, err := b.Region.SecurityGroups(g)
	worldtest.WantRefusal(t, "describe", err, "InvalidGroup.NotFound", "The security group '"+g+"' does not exist")
	worldtest.WantRefusal(t, "authorize", b.Allow(g, worldtest.TCP(80, "10.0.0.0/8")), "InvalidGroup.NotFound", "")
	worldtest.WantRefusal(t, "tag", b.Region.CreateTags([]string{g}, []aws.Tag{{Key: "k", Value: "v"}}), "InvalidGroup.NotFound", "")
	_, err = b.Region.Groups().DeleteSecurityGroup(g, "")
	worldtest.WantRefusal(t, "delete", err, "InvalidGroup.NotFound", "")
	_, err = b.Region.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: b.Subnets[0].ID, GroupIDs: []string{g}})
	worldtest.WantRefusal(t, "run with it", err, "InvalidGroup.NotFound", "")
	_, err = b.Region.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "late", Description: "d", VPCID: b.VPC.ID})
	worldtest.WantRefusal(t, "create again", err, "InvalidGroup.Duplicate", "")
	v := worldtest.Must[aws.VPC](t)(b.Region.Networks().CreateVPC(aws.CreateVPCInput{CIDR: "10.8.0.0/16"}))
	_, err = b.Region.Networks().CreateSubnet(aws.CreateSubnetInput{VPCID: v.ID, CIDR: "10.8.0.0/24"})
	worldtest.WantRefusal(t, "subnet of a new VPC", err, "InvalidVpcID.NotFound", "")
	b.Clock.Advance(10 * time.Second)
	if err := b.Allow(g, worldtest.TCP(80, "10.0.0.0/8")); err != nil {
		t.Errorf("after the delay: %v", err)
	}
	if after := len(worldtest.Must[[]aws.SecurityGroup](t)(b.Region.SecurityGroups())); after != before+2 {
		t.Errorf("%d groups are visible, before %d: expected the group and the default group of the VPC", after, before)
	}
}

func TestTags(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	g := b.Group("web")
	rule := worldtest.Must[[]aws.SecurityGroupRule](t)(b.Region.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: g, Permissions: []aws.Permission{worldtest.TCP(80, "10.0.0.0/8")}}))[0].ID
	i := b.Run(aws.RunInstancesInput{})
	all := []string{b.VPC.ID, b.Subnets[0].ID, g, rule, i.ID, i.NetworkInterfaces[0].ID}
	if err := b.Region.CreateTags(all, []aws.Tag{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, x := range b.Region.Tags() {
		if x.Key == "a" && x.Value == "1" && x.ResourceType == aws.ResourceType(x.ResourceID) && x.ResourceType != "" {
			n++
		}
	}
	if n != len(all) {
		t.Errorf("%d resources carry the tag, want %d", n, len(all))
	}
	if err := b.Region.DeleteTags([]string{g, rule}, []aws.TagKey{{Key: "a", Value: worldtest.Text("other")}, {Key: "b"}}); err != nil {
		t.Fatal(err)
	}
	if got := worldtest.Must[[]aws.SecurityGroup](t)(b.Region.SecurityGroups(g))[0].Tags; fmt.Sprint(got) != "map[a:1]" {
		t.Errorf("tags left: %v", got)
	}
	if err := b.Region.DeleteTags([]string{g}, nil); err != nil || len(worldtest.Must[[]aws.SecurityGroup](t)(b.Region.SecurityGroups(g))[0].Tags) != 0 {
		t.Errorf("delete without keys removes all tags (%v)", err)
	}
	worldtest.WantRefusal(t, "reserved", b.Region.CreateTags([]string{g}, []aws.Tag{{Key: "aws:x", Value: ""}}), "InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
	worldtest.WantRefusal(t, "unknown kind", b.Region.CreateTags([]string{"vol-12345678"}, []aws.Tag{{Key: "a", Value: ""}}), "InvalidID", "The ID 'vol-12345678' is not valid")
	worldtest.WantRefusal(t, "unknown interface", b.Region.DeleteTags([]string{"eni-12345678"}, nil), "InvalidNetworkInterfaceID.NotFound", "")
	worldtest.WantRefusal(t, "no resource", b.Region.CreateTags(nil, []aws.Tag{{Key: "a", Value: ""}}), "MissingParameter", "")
}

func TestAllowed(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	web, db, ping := b.Group("web"), b.Group("db"), b.Group("ping")
	public := true
	w := b.Run(aws.RunInstancesInput{Interfaces: []aws.InterfaceSpec{{SubnetID: b.Subnets[0].ID, GroupIDs: []string{web, ping}, AssociatePublicIP: &public, IPv6Count: 1}}}).NetworkInterfaces[0]
	d := b.Run(aws.RunInstancesInput{Interfaces: []aws.InterfaceSpec{{SubnetID: b.Subnets[1].ID, GroupIDs: []string{db}, AssociatePublicIP: &public, IPv6Count: 1, SecondaryIPs: []string{"10.0.1.99"}}}}).NetworkInterfaces[0]
	icmp := aws.Permission{Protocol: "icmp", FromPort: worldtest.Num(8), ToPort: worldtest.Num(-1), CIDRs: []aws.CIDRPeer{{CIDR: "0.0.0.0/0"}}}
	icmp6 := aws.Permission{Protocol: "58", CIDRs: []aws.CIDRPeer{{CIDR: "::/0", IPv6: true}}}
	for g, perms := range map[string][]aws.Permission{web: {worldtest.TCP(80, "0.0.0.0/0", "::/0"), worldtest.TCP(22, "203.0.113.0/24")}, db: {worldtest.FromGroup(worldtest.TCP(5432), web)}, ping: {icmp, icmp6}} {
		if err := b.Allow(g, perms...); err != nil {
			t.Fatal(err)
		}
	}
	out := func(s string) packet.End { return packet.End{Addr: netip.MustParseAddr(s)} }
	W, D := packet.End{NIC: w.ID}, packet.End{NIC: d.ID}
	for i, c := range []struct {
		f    packet.Flow
		want bool
		why  string
	}{
		{packet.Flow{Src: out("8.8.8.8"), Dst: W, Protocol: 6, Port: 80}, true, "of " + web + " (web) allows tcp 80 from 0.0.0.0/0"},
		{packet.Flow{Src: out("8.8.8.8"), Dst: W, Protocol: 6, Port: 22}, false, "no rule of " + web + " (web), " + ping + " (ping) allows tcp 22 from 8.8.8.8"},
		{packet.Flow{Src: out("203.0.113.9"), Dst: W, Protocol: 6, Port: 22}, true, ""},
		{packet.Flow{Src: out("2001:db8::9"), Dst: W, Protocol: 6, Port: 80}, true, "from ::/0"},
		{packet.Flow{Src: W, Dst: D, Protocol: 6, Port: 5432}, true, "from " + web},
		{packet.Flow{Src: W, Dst: packet.End{NIC: d.ID, Addr: netip.MustParseAddr("10.0.1.99")}, Protocol: 6, Port: 5432}, true, ""},
		{packet.Flow{Src: W, Dst: out("10.0.1.99"), Protocol: 6, Port: 5432}, true, d.ID},
		{packet.Flow{Src: packet.End{NIC: w.ID, Addr: w.IPv6[0]}, Dst: packet.End{NIC: d.ID}, Protocol: 6, Port: 5432}, true, ""},
		{packet.Flow{Src: W, Dst: D, Protocol: 17, Port: 5432}, false, "udp 5432"},
		{packet.Flow{Src: D, Dst: W, Protocol: 6, Port: 80}, true, ""},
		{packet.Flow{Src: W, Dst: packet.End{Addr: d.PrivateIPs[0].Public}, Protocol: 6, Port: 5432}, false, w.PrivateIPs[0].Public.String()},
		{packet.Flow{Src: D, Dst: packet.End{Addr: w.PrivateIPs[0].Public}, Protocol: 6, Port: 80}, true, ""},
		{packet.Flow{Src: out("8.8.8.8"), Dst: W, Protocol: 1, ICMPType: 8, ICMPCode: 3}, true, ""},
		{packet.Flow{Src: out("8.8.8.8"), Dst: W, Protocol: 1, ICMPType: 0}, false, "icmp 0/0"},
		{packet.Flow{Src: out("2001:db8::9"), Dst: W, Protocol: 58, ICMPType: 128}, true, ""},
		{packet.Flow{Src: W, Dst: W, Protocol: 6, Port: 1}, true, "never filters itself"},
		{packet.Flow{Src: W, Dst: out("1.2.3.4"), Protocol: 132, Port: 1}, true, "all to 0.0.0.0/0"},
	} {
		v, err := b.World.Allowed(c.f)
		if err != nil || v.Allowed != c.want || !strings.Contains(v.Reason, c.why) {
			t.Errorf("%d: %s: %s (%v), want %t because %q", i, c.f, v.Reason, err, c.want, c.why)
		}
	}
	for what, f := range map[string]packet.Flow{
		"no network interface": {Src: packet.End{NIC: "eni-00000000"}, Dst: W, Protocol: 6},
		"neither":              {Src: out("8.8.8.8"), Dst: out("8.8.4.4"), Protocol: 6},
		"families":             {Src: packet.End{NIC: w.ID, Addr: w.PrivateIPs[0].Addr}, Dst: packet.End{NIC: d.ID, Addr: d.IPv6[0]}, Protocol: 6},
		"does not have":        {Src: packet.End{NIC: w.ID, Addr: netip.MustParseAddr("10.0.1.99")}, Dst: D, Protocol: 6},
	} {
		if v, err := b.World.Allowed(f); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %+v, error %v", what, v, err)
		}
	}
}

func TestAssumeRole(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	caller, ok := b.World.Credential("AKIATESTTESTTESTTEST")
	if !ok || caller.ARN() != "arn:aws:iam::"+worldtest.AccountA+":user/nephele" {
		t.Fatalf("caller %+v", caller)
	}
	in := aws.AssumeRoleInput{RoleARN: "arn:aws:iam::" + worldtest.AccountB + ":role/reader", SessionName: "s1", ExternalID: "x1"}
	c := worldtest.Must[aws.Credential](t)(b.World.AssumeRole(caller, in))
	if c.Account != worldtest.AccountB || c.SessionToken == "" || c.ARN() != "arn:aws:sts::"+worldtest.AccountB+":assumed-role/reader/s1" || !c.Expires.Equal(b.Clock.Now().Add(time.Hour)) {
		t.Errorf("session %+v", c)
	}
	if found, ok := b.World.Credential(c.AccessKeyID); !ok || found != c {
		t.Errorf("the session key is not known: %+v", found)
	}
	for what, f := range map[string]func(*aws.AssumeRoleInput){
		"external id": func(in *aws.AssumeRoleInput) { in.ExternalID = "" },
		"role":        func(in *aws.AssumeRoleInput) { in.RoleARN += "x" },
	} {
		bad := in
		f(&bad)
		_, err := b.World.AssumeRole(caller, bad)
		worldtest.WantRefusal(t, what, err, "AccessDenied", "is not authorized to perform: sts:AssumeRole on resource: "+bad.RoleARN)
	}
	in.DurationSeconds = 7200
	_, err := b.World.AssumeRole(caller, in)
	worldtest.WantRefusal(t, "too long", err, "ValidationError", "MaxSessionDuration")
	_, err = b.World.AssumeRole(c, aws.AssumeRoleInput{RoleARN: in.RoleARN, SessionName: "s2", ExternalID: "x1"})
	worldtest.WantRefusal(t, "untrusted caller", err, "AccessDenied", "")
	_, err = b.World.Region("999999999999", worldtest.West)
	worldtest.WantRefusal(t, "unknown account", err, "AuthFailure", "")
	_, err = b.World.Region(worldtest.AccountA, "mars-north-1")
	worldtest.WantRefusal(t, "unknown region", err, "OptInRequired", "")
}

// TestStateGoesOn: a world that is built from the state of another, as JSON, goes on where that
// stopped.
func TestStateGoesOn(t *testing.T) {
	b := worldtest.New(t, world.Options{TransitionDelay: time.Minute, Seed: 7})
	web := b.Group("web")
	if err := b.Allow(web, worldtest.FromGroup(worldtest.TCP(80, "10.0.0.0/8", "2001:db8::/32"), web)); err != nil {
		t.Fatal(err)
	}
	i := b.Run(aws.RunInstancesInput{GroupIDs: []string{web}, ClientToken: "tok"})
	data := worldtest.Must[[]byte](t)(json.Marshal(b.World.State()))
	var saved aws.State
	if err := json.Unmarshal(data, &saved); err != nil {
		t.Fatal(err)
	}
	again := worldtest.Must[*world.World](t)(world.New(saved, world.Options{Clock: b.Clock.Now, TransitionDelay: time.Minute, Seed: 99}))
	if x, y := b.World.State(), again.State(); !reflect.DeepEqual(x, y) {
		t.Errorf("the loaded state differs:\n%+v\n%+v", x, y)
	}
	b.Clock.Advance(time.Minute)
	r := worldtest.Must[*world.Region](t)(again.Region(worldtest.AccountA, worldtest.West))
	if got := worldtest.Must[[]aws.Instance](t)(r.Instances(i.ID))[0].State; got != aws.Running {
		t.Errorf("after the restart the instance is %s", got)
	}
	// Ids go on where they stopped: both worlds make up the same next one, which nothing has yet.
	g1 := b.Group("next")
	g2 := worldtest.Must[aws.SecurityGroup](t)(r.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "next", Description: "test", VPCID: b.VPC.ID})).ID
	if g1 != g2 {
		t.Errorf("ids differ after the restart: %s and %s", g1, g2)
	}
}

// TestConcurrency mutates, reads and asks verdicts from many goroutines, with a hook that reads; it
// is for the race detector.
func TestConcurrency(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	i := b.Run(aws.RunInstancesInput{})
	nic := i.NetworkInterfaces[0].ID
	seen := b.World.State().Seq
	remove := b.World.OnMutation(func(m aws.Mutation) {
		if m.Seq != seen+1 {
			t.Errorf("mutation %d after %d", m.Seq, seen)
		}
		seen = m.Seq
		if got := b.World.State().Seq; got != m.Seq {
			t.Errorf("a hook of mutation %d sees the state after %d", m.Seq, got)
		}
	})
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			g, err := b.Region.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: fmt.Sprint("g", k), Description: "d", VPCID: b.VPC.ID})
			if err != nil {
				t.Error(err)
				return
			}
			for n := range int32(20) {
				err := errors.Join(b.Allow(g.ID, worldtest.TCP(n, "10.0.0.0/8")), b.Region.Interfaces().ModifyNetworkInterfaceGroups(nic, []string{g.ID}))
				_, err2 := b.Region.SecurityGroups()
				_, err3 := b.World.Allowed(packet.Flow{Src: packet.End{Addr: netip.MustParseAddr("10.9.9.9")}, Dst: packet.End{NIC: nic}, Protocol: 6, Port: int(n)})
				if err := errors.Join(err, err2, err3); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	remove()
	before := seen
	b.Group("last")
	if seen != before {
		t.Error("a removed hook ran")
	}
}
