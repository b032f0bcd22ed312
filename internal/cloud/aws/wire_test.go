package aws_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// TestCredentials tries every way of proving who we are, right and wrong.
func TestCredentials(t *testing.T) {
	t.Parallel()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	account := state.Accounts[0].ID
	const other = "999988887777"
	state.Accounts = append(state.Accounts, world.Account{ID: other, Regions: []string{region}})
	state.Regions = append(state.Regions, world.RegionState{Account: other, Name: region})
	state.Credentials = append(state.Credentials,
		world.Credential{AccessKeyID: "AKIAHUB", Secret: "hub", Account: other},
		world.Credential{AccessKeyID: "ASIATEMP", Secret: "temp", SessionToken: "token", Account: account})
	state.Roles = append(state.Roles, world.Role{Account: account, Name: "nephele", Trusted: []string{other}, ExternalID: "customer-42"})
	l := newLab(t, sim.Options{State: state})
	role := "arn:aws:iam::" + account + ":role/nephele"
	hub := credentials.NewStaticCredentialsProvider("AKIAHUB", "hub", "")
	for _, c := range []struct {
		name    string
		cred    v1alpha1.AWSCredential
		ambient awssdk.CredentialsProvider
		want    cloud.Class
		code    string
	}{
		{name: "keys", cred: v1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret}},
		{name: "keys and token", cred: v1alpha1.AWSCredential{AccessKeyID: "ASIATEMP", AccessKeySecret: "temp", SessionToken: "token"}},
		{name: "role with keys", cred: v1alpha1.AWSCredential{
			AccessKeyID: "AKIAHUB", AccessKeySecret: "hub", RoleArn: role, ExternalID: "customer-42"}},
		{name: "role with the identity of the process", ambient: hub, cred: v1alpha1.AWSCredential{RoleArn: role, ExternalID: "customer-42"}},
		{name: "unknown key", want: cloud.Auth, code: "InvalidClientTokenId",
			cred: v1alpha1.AWSCredential{AccessKeyID: "AKIANOBODY", AccessKeySecret: "x"}},
		{name: "wrong secret", want: cloud.Auth, code: "SignatureDoesNotMatch",
			cred: v1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: "x"}},
		{name: "token missing", want: cloud.Auth, code: "InvalidClientTokenId",
			cred: v1alpha1.AWSCredential{AccessKeyID: "ASIATEMP", AccessKeySecret: "temp"}},
		{name: "wrong external id", want: cloud.Auth, code: "AccessDenied", ambient: hub,
			cred: v1alpha1.AWSCredential{RoleArn: role, ExternalID: "customer-43"}},
		{name: "unknown role", want: cloud.Auth, code: "AccessDenied", ambient: hub,
			cred: v1alpha1.AWSCredential{RoleArn: role + "s", ExternalID: "customer-42"}},
		{name: "no identity", want: cloud.Auth, cred: v1alpha1.AWSCredential{RoleArn: role},
			ambient: awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) {
				return awssdk.Credentials{}, errors.New("none here")
			})},
	} {
		p := l.open(aws.Config{Credential: c.cred, Ambient: c.ambient})
		s, err := p.Observe(t.Context(), l.scope())
		if c.want == "" {
			if err != nil || s.OwnerID != account || len(s.VMs) == 0 {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var e *cloud.Error
		if s != nil || !errors.As(err, &e) || e.Class != c.want || e.Code != c.code {
			t.Errorf("%s: %v, %v; want class %s, code %q", c.name, s != nil, err, c.want, c.code)
		}
		if errors.Is(err, cloud.ErrRegionUnknown) {
			t.Errorf("%s: taken for an unknown region: %v", c.name, err)
		}
	}
}

func TestUnknownRegion(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	scope := cloud.Scope{Account: "ns/account", Region: "eu-nowhere-1"}
	if s, err := l.provider.Observe(t.Context(), scope); s != nil || !errors.Is(err, cloud.ErrRegionUnknown) {
		t.Errorf("Observe: %v, %v", s != nil, err)
	}
	op := cloud.Op{Kind: cloud.OpTag, Target: "vpc-b390fad5", Tags: map[string]string{"a": "b"}}
	if _, err := l.provider.Apply(t.Context(), scope, op); !errors.Is(err, cloud.ErrRegionUnknown) {
		t.Errorf("Apply: %v", err)
	}
	// A region may also answer that it does not know the credentials; whether they are good elsewhere tells the two apart.
	l.server.Faults().Add(ec2.Fault{Action: "DescribeInstances", Code: "AuthFailure", Times: -1})
	if _, err := l.provider.Observe(t.Context(), l.scope()); errors.Is(err, cloud.ErrRegionUnknown) || cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("our own region was taken for an unknown one: %v", err)
	}
	l.server.Faults().Add(ec2.Fault{Action: "DescribeVpcs", Region: "eu-nowhere-1", Code: "AuthFailure", Times: -1})
	l.server.Faults().Add(ec2.Fault{Action: "DescribeVpcPeeringConnections", Region: "eu-nowhere-1", Code: "AuthFailure", Times: -1})
	if _, err := l.provider.Observe(t.Context(), scope); !errors.Is(err, cloud.ErrRegionUnknown) {
		t.Errorf("an unknown region was not recognised: %v", err)
	}
}

// TestPages reads the same region in small and in large pages, and loses every page once.
func TestPages(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	for i := range 23 {
		name := fmt.Sprintf("g%02d", i)
		if _, err := l.region().CreateSecurityGroup(world.CreateSecurityGroupInput{Name: name, Description: "d", VPCID: network}); err != nil {
			t.Fatal(err)
		}
	}
	want, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	small := l.open(aws.Config{PageSize: 5})
	got, err := small.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(prefix("::/0"), prefix("::/0").Addr())); diff != "" {
		t.Errorf("in small pages:\n%s", diff)
	}
	pages := 0
	for _, c := range l.server.Journal().Calls(0) {
		if c.Action == "DescribeSecurityGroups" && c.Params["NextToken"] != "" {
			pages++
		}
	}
	if pages < 5 {
		t.Fatalf("%d further pages", pages)
	}
	for page := 1; page <= pages+1; page++ {
		l.server.Faults().Add(ec2.Fault{Action: "DescribeSecurityGroups", Nth: page, Times: -1, Code: "InternalError"})
		if s, err := small.Observe(t.Context(), l.scope()); s != nil || cloud.ClassOf(err) != cloud.Unavailable || err == nil {
			t.Errorf("page %d is missing: %v, %v", page, s != nil, err)
		}
		l.server.Faults().Clear()
	}
}

// TestObserveDetails checks what the conformance suite cannot know: how AWS's own notions appear in a snapshot.
func TestObserveDetails(t *testing.T) {
	t.Parallel()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	account := state.Accounts[0].ID
	peering := func(id, status string) world.PeeringConnection {
		return world.PeeringConnection{ID: id, Status: status,
			Requester: world.PeeringVPC{VPCID: network, Account: account, Region: region},
			Accepter:  world.PeeringVPC{VPCID: "vpc-925131f4", Account: account, Region: region}}
	}
	state.Peerings = []world.PeeringConnection{peering("pcx-00000000000000001", "active"), peering("pcx-00000000000000002", "pending-acceptance")}
	nics := state.Regions[0].NetworkInterfaces
	nics[0].RequesterManaged, nics[1].InterfaceType = true, "nat_gateway"
	l := newLab(t, sim.Options{State: state})
	before, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	if len(before.Peerings) != 1 || before.Peerings[0].ID != "pcx-00000000000000001" || before.Peerings[0].A.NetworkID != network {
		t.Errorf("peerings %+v", before.Peerings)
	}
	for _, n := range before.Interfaces {
		if want := n.ID == nics[0].ID || n.ID == nics[1].ID; n.Managed != want {
			t.Errorf("%s: managed %t; want %t", n.ID, n.Managed, want)
		}
		if len(n.PrivateIPs) == 0 {
			t.Errorf("%s has no address", n.ID)
		}
	}
	i := slices.IndexFunc(before.Networks, func(n cloud.Network) bool { return n.ID == network })
	if n := before.Networks[i]; n.Name != "Arista Demo" || fmt.Sprint(n.CIDRs) != "[192.168.0.0/16]" || n.OwnerID == "" {
		t.Errorf("network %+v", n)
	}
	gone := before.VMs[0].ID
	if _, err := l.region().TerminateInstances([]string{gone}); err != nil {
		t.Fatal(err)
	}
	after, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	if len(after.VMs) != len(before.VMs)-1 || slices.ContainsFunc(after.VMs, func(v cloud.VM) bool { return v.ID == gone }) {
		t.Errorf("%d VMs after a termination, %d before", len(after.VMs), len(before.VMs))
	}
}

// TestStaleReference removes a rule whose peer group is gone.
func TestStaleReference(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	id, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpCreateGroup,
		Group: cloud.GroupSpec{NetworkID: network, Name: "nephele-x", Tags: map[string]string{cloud.TagCluster: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	rule := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 1, 2), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}}
	if _, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{rule}}); err != nil {
		t.Fatal(err)
	}
	l.server.Faults().Add(ec2.Fault{Action: "RevokeSecurityGroupIngress", Code: "InvalidGroup.NotFound", Times: 1})
	l.clock.sleep(t.Context(), time.Hour)
	if _, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpRemoveRules, Target: id, Rules: []cloud.Rule{rule}}); err != nil {
		t.Fatal(err)
	}
	groups, err := l.region().SecurityGroups(id)
	if err != nil || len(groups[0].Rules) != 0 {
		t.Errorf("%v, %v", groups, err)
	}
	if calls := l.actions(); !slices.Contains(calls, "DescribeSecurityGroupRules") {
		t.Errorf("calls %v", calls)
	}
}

func (l *lab) actions() []string {
	var out []string
	for _, c := range l.server.Journal().Calls(0) {
		out = append(out, c.Action)
	}
	return out
}

// TestCallsPerOp pins down what ops cost, which is what a plan's number of calls promises.
func TestCallsPerOp(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	before := len(l.actions())
	id, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpCreateGroup,
		Group: cloud.GroupSpec{NetworkID: network, Name: "nephele-x", Tags: map[string]string{cloud.TagCluster: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	var many []cloud.Rule
	for i := range 30 {
		many = append(many, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, i, i), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}},
			cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(cloud.TCP, i, i), Peer: cloud.Peer{GroupID: id}})
	}
	for _, op := range []cloud.Op{
		{Kind: cloud.OpAddRules, Target: id, Rules: many},
		{Kind: cloud.OpRemoveRules, Target: id, Rules: many},
		{Kind: cloud.OpTag, Target: id, Tags: map[string]string{"a": "1", "b": "2"}},
		{Kind: cloud.OpDeleteGroup, Target: id},
	} {
		if _, err := l.provider.Apply(t.Context(), l.scope(), op); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
	}
	want := []string{
		"CreateSecurityGroup", "DescribeSecurityGroups", "RevokeSecurityGroupEgress",
		"AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress", "RevokeSecurityGroupIngress", "RevokeSecurityGroupEgress",
		"CreateTags", "DeleteSecurityGroup",
	}
	if got := l.actions()[before:]; !slices.Equal(got, want) {
		t.Errorf("calls\n%v\nwant\n%v", got, want)
	}
}

// TestAdmit checks the place where callers share a rate: every attempt passes it, and learns how it ended.
func TestAdmit(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	var mu sync.Mutex
	var seen []string
	full := errors.New("no more")
	deny := false
	p := l.open(aws.Config{Admit: func(_ context.Context, r, action string) (func(cloud.Class), error) {
		mu.Lock()
		defer mu.Unlock()
		if deny {
			return nil, full
		}
		return func(c cloud.Class) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r+" "+action+" "+string(c))
		}, nil
	}})
	l.server.Faults().Add(ec2.Fault{Action: "CreateTags", Code: "RequestLimitExceeded", Times: 2})
	op := cloud.Op{Kind: cloud.OpTag, Target: network, Tags: map[string]string{"a": "1"}}
	if _, err := p.Apply(t.Context(), l.scope(), op); err != nil {
		t.Fatal(err)
	}
	throttled := region + " CreateTags " + string(cloud.Throttled)
	if want := []string{throttled, throttled, region + " CreateTags "}; !slices.Equal(seen, want) {
		t.Errorf("seen %q; want %q", seen, want)
	}
	deny = true
	if _, err := p.Apply(t.Context(), l.scope(), op); !errors.Is(err, full) || cloud.ClassOf(err) != cloud.Unavailable {
		t.Errorf("refused admission: %v", err)
	}
}

// roundTripper notes the user agents of requests.
type roundTripper struct {
	mu     sync.Mutex
	agents []string
}

func (r *roundTripper) Do(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.agents = append(r.agents, req.UserAgent())
	r.mu.Unlock()
	return http.DefaultClient.Do(req)
}

func TestUserAgentAndClient(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	client := &roundTripper{}
	if _, err := l.open(aws.Config{Client: client}).Observe(t.Context(), l.scope()); err != nil {
		t.Fatal(err)
	}
	for _, a := range client.agents {
		if !strings.Contains(a, "nephele/test") {
			t.Errorf("user agent %q", a)
		}
	}
	if len(client.agents) < 6 {
		t.Errorf("%d requests passed the client", len(client.agents))
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	got, err := l.provider.Limits(t.Context(), l.scope())
	if want := (cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500, TagsPerResource: 50}); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	p := l.open(aws.Config{Limits: func(string) cloud.Limits { return cloud.Limits{RulesPerGroup: 200} }})
	if got, _ := p.Limits(t.Context(), l.scope()); got.RulesPerGroup != 200 || got.GroupsPerInterface != 5 {
		t.Errorf("%+v", got)
	}
}

// TestRealQuotas runs into the quotas of the simulated account.
func TestRealQuotas(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	create := func(name string) (string, error) {
		return l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpCreateGroup,
			Group: cloud.GroupSpec{NetworkID: network, Name: name, Tags: map[string]string{cloud.TagCluster: "c"}}})
	}
	var ids []string
	for i := range 6 {
		id, err := create(fmt.Sprintf("nephele-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	var rules []cloud.Rule
	for i := range 61 {
		rules = append(rules, cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(cloud.TCP, i, i), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}})
	}
	_, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpAddRules, Target: ids[0], Rules: rules})
	if cloud.ClassOf(err) != cloud.Quota {
		t.Errorf("61 rules: %v", err)
	}
	snap, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	nic := snap.Interfaces[slices.IndexFunc(snap.Interfaces, func(n cloud.Interface) bool { return n.NetworkID == network && !n.Managed })]
	_, err = l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic.ID, GroupIDs: ids})
	if cloud.ClassOf(err) != cloud.Quota {
		t.Errorf("6 groups: %v", err)
	}
}

// TestNoBrokenConnections: without retries, many fast calls beside one another all succeed; see calmClient.
func TestNoBrokenConnections(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	p := l.open(aws.Config{MaxAttempts: 1})
	for range 60 {
		if _, err := p.Observe(t.Context(), l.scope()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMessages: errors say what people need, without the layers of the SDK.
func TestMessages(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	l.server.Faults().Add(ec2.Fault{Action: "AssumeRole", Code: "AccessDenied", Message: "not yours", Times: -1})
	for want, p := range map[string]*aws.Provider{
		"GetCallerIdentity: AccessDenied (Auth): no usable credentials: not yours [request": l.open(aws.Config{
			Credential: v1alpha1.AWSCredential{RoleArn: "arn:aws:iam::123456789012:role/x"},
			Ambient:    credentials.NewStaticCredentialsProvider(estate.DefaultAccessKeyID, estate.DefaultSecret, "")}),
		"GetCallerIdentity (Auth): no usable credentials: failed to refresh cached credentials, none here": l.open(aws.Config{
			Credential: v1alpha1.AWSCredential{RoleArn: "arn:aws:iam::123456789012:role/x"},
			Ambient: awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) {
				return awssdk.Credentials{}, errors.New("none here")
			})}),
		"GetCallerIdentity (Unavailable): the wire is cut": l.open(aws.Config{Client: cut{}}),
	} {
		if _, err := p.Observe(t.Context(), l.scope()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// cut is a client without a network.
type cut struct{}

func (cut) Do(*http.Request) (*http.Response, error) { return nil, errors.New("the wire is cut") }
