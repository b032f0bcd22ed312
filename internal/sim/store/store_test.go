package store

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

const (
	account = "111111111111"
	region  = "us-east-1"
)

// open opens a Store with one account and a clock that stands still until the test moves it.
func open(t *testing.T, o Options) (*Store, *Site, *time.Time) {
	t.Helper()
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	o.Clock = func() time.Time { return now }
	s, err := Open(aws.State{Accounts: []aws.Account{{ID: account, Regions: []string{region}}}}, o, func(*Site) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	at, err := SiteOf(s, account, region)
	if err != nil {
		t.Fatal(err)
	}
	return s, at, &now
}

// addVPC is what a call does.
func addVPC(at *Site, cidr string) error {
	return at.Mutate("CreateVpc", func(now time.Time) ([]string, error) {
		v := &aws.VPC{
			ID: at.NewID("vpc"), Account: account, Region: region, State: aws.StatePending, Visible: at.Visible(now),
			CIDRs: []aws.CIDRBlock{{Prefix: netip.MustParsePrefix(cidr)}},
		}
		at.Data.VPCs[v.ID] = v
		at.Later(now, at.Transition(), v.ID, aws.StatePending, aws.StateAvailable)
		return []string{v.ID}, nil
	})
}

// TestCommits: hooks see committed mutations, numbered without holes, and nothing else.
func TestCommits(t *testing.T) {
	s, at, _ := open(t, Options{})
	var seen []aws.Mutation
	remove := s.OnMutation(func(m aws.Mutation) {
		seen = append(seen, m)
		if len(s.State().Regions[0].VPCs) == 0 { // a hook may read
			t.Error("the hook ran before the commit")
		}
	})
	cause := &aws.Cause{Request: "r-1"}
	refused := errors.New("refused")
	for _, call := range []func() error{
		func() error { return addVPC(at.For(cause), "10.0.0.0/16") },
		func() error {
			return at.Mutate("Repeat", func(time.Time) ([]string, error) { return nil, ErrNothingChanged })
		},
		func() error { return addVPC(at, "10.1.0.0/16") },
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	if err := at.Mutate("Refuse", func(time.Time) ([]string, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("a refusal comes back as %v", err)
	}
	remove()
	if err := addVPC(at, "10.2.0.0/16"); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[0].Seq != 1 || seen[1].Seq != 2 || seen[0].Cause != cause || seen[1].Cause != nil || seen[0].Account != account || seen[0].Region != region {
		t.Errorf("the hook saw %+v", seen)
	}
}

// TestTransitions: a state changes when its time is over, in the next read, and not before.
func TestTransitions(t *testing.T) {
	s, at, now := open(t, Options{TransitionDelay: time.Minute, VisibilityDelay: time.Second})
	var made []aws.Transition
	s.OnTransition(func(x aws.Transition) { made = append(made, x) })
	if err := addVPC(at, "10.0.0.0/16"); err != nil {
		t.Fatal(err)
	}
	state := func() (out string) {
		at.Read(func(time.Time) {
			for _, v := range at.Data.VPCs {
				out = v.State
			}
		})
		return out
	}
	*now = now.Add(time.Minute - 1)
	if got := state(); got != aws.StatePending || len(made) != 0 {
		t.Errorf("before its time: %s, %v", got, made)
	}
	*now = now.Add(1)
	if got := state(); got != aws.StateAvailable || len(made) != 1 || made[0].To != aws.StateAvailable {
		t.Errorf("at its time: %s, %v", got, made)
	}
}

// TestReopen: the saved state opens as the same Store, which goes on making the same ids.
func TestReopen(t *testing.T) {
	s, at, now := open(t, Options{Seed: 7})
	if err := addVPC(at, "10.0.0.0/16"); err != nil {
		t.Fatal(err)
	}
	if err := at.Mutate("CreateSecurityGroup", func(now time.Time) ([]string, error) {
		for _, v := range at.Data.VPCs {
			at.CompleteVPC(v)
			g := at.NewGroup(v, "default", "d", now)
			at.Data.Groups[g.ID] = g
		}
		at.Remember("CreateSecurityGroup", "token", "sg-1")
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	saved := s.State()
	order := 0
	again, err := Open(saved, Options{Clock: func() time.Time { return *now }}, func(*Site) error { order++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.State(), saved) || order != 1 {
		t.Errorf("reopened %d sites:\n%+v\nsaved:\n%+v", order, again.State(), saved)
	}
	there, err := SiteOf(again, account, region)
	if err != nil {
		t.Fatal(err)
	}
	if there.Made("CreateSecurityGroup", "token") != "sg-1" || there.Made("CreateSecurityGroup", "") != "" {
		t.Error("the token is forgotten")
	}
	if a, b := at.NewID("eni"), there.NewID("eni"); a != b {
		t.Errorf("the next id is %s, and %s after a restart", a, b)
	}
}

// TestSharedSubnet: a participant sees the shared subnet with tags of its own, and the owner sees
// the participant's interfaces without theirs.
func TestSharedSubnet(t *testing.T) {
	const other = "222222222222"
	of := func(id string, r aws.RegionState) aws.RegionState {
		r.Account, r.Name = id, region
		return r
	}
	vpc := aws.VPC{ID: "vpc-00000001", Account: account, CIDRs: []aws.CIDRBlock{{Prefix: netip.MustParsePrefix("10.0.0.0/16")}}, IsDefault: true}
	s, err := Open(aws.State{
		Accounts: []aws.Account{{ID: account}, {ID: other}, {ID: "333333333333", Regions: []string{region}}},
		Regions: []aws.RegionState{
			of(account, aws.RegionState{
				VPCs:           []aws.VPC{vpc},
				Subnets:        []aws.Subnet{{ID: "subnet-00000001", VPCID: vpc.ID, CIDR: netip.MustParsePrefix("10.0.0.0/24"), SharedWith: []string{other}, Tags: aws.Tags{"owner": "x"}}},
				SecurityGroups: []aws.SecurityGroup{{ID: "sg-00000001", VPCID: vpc.ID, Name: "default"}},
			}),
			of(other, aws.RegionState{
				SecurityGroups: []aws.SecurityGroup{{ID: "sg-00000002", VPCID: vpc.ID, Name: "theirs", Tags: aws.Tags{"a": "b"}}},
				NetworkInterfaces: []aws.NetworkInterface{{
					ID: "eni-00000001", VPCID: vpc.ID, SubnetID: "subnet-00000001", Groups: []aws.GroupName{{ID: "sg-00000002", Name: "theirs"}}, Tags: aws.Tags{"a": "b"},
					PrivateIPs: []aws.PrivateIP{{Addr: netip.MustParseAddr("10.0.0.4"), Primary: true}},
				}},
			}),
		},
	}, Options{}, func(*Site) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int{account: 1, other: 1, "333333333333": 0} {
		at, err := SiteOf(s, id, region)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(at.VisibleSubnets()); got != want {
			t.Errorf("%s sees %d subnets, want %d", id, got, want)
		}
		if id == other {
			if v, n := at.VisibleVPCs()[vpc.ID], at.VisibleSubnets()["subnet-00000001"]; v == nil || v.IsDefault || len(n.Tags)+len(n.SharedWith) != 0 {
				t.Errorf("the participant sees %+v, %+v", v, n)
			}
		}
		if id == account {
			if n, g := at.VisibleNICs()["eni-00000001"], at.VisibleGroups()["sg-00000002"]; n == nil || g == nil || len(n.Tags)+len(g.Tags) != 0 {
				t.Errorf("the owner sees %+v, %+v", n, g)
			}
			if got := at.FreeAddresses(at.Data.Subnets["subnet-00000001"]); got != 256-5-1 {
				t.Errorf("%d free addresses", got)
			}
		}
	}
}

// TestSites refuses what the cloud refuses.
func TestSites(t *testing.T) {
	s, _, _ := open(t, Options{})
	for want, at := range map[string][2]string{"AuthFailure": {"999999999999", region}, "OptInRequired": {account, "eu-west-1"}} {
		_, err := SiteOf(s, at[0], at[1])
		var refusal *aws.Error
		if !errors.As(err, &refusal) || refusal.Code != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if got := s.Regions(account); !slices.ContainsFunc(got, func(r aws.RegionInfo) bool { return r.Name == region }) {
		t.Errorf("regions %v", got)
	}
}
