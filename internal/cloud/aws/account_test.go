package aws_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// TestCredentials tries every kind of credentials, right and wrong.
func TestCredentials(t *testing.T) {
	t.Parallel()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	account := state.Accounts[0].ID
	const other = "999988887777"
	state.Accounts = append(state.Accounts, simaws.Account{ID: other, Regions: []string{region}})
	state.Regions = append(state.Regions, simaws.RegionState{Account: other, Name: region})
	state.Credentials = append(state.Credentials,
		simaws.Credential{AccessKeyID: "AKIAHUB", Secret: "hub", Account: other},
		simaws.Credential{AccessKeyID: "ASIATEMP", Secret: "temp", SessionToken: "token", Account: account})
	state.Roles = append(state.Roles,
		simaws.Role{Account: account, Name: "nephele", Trusted: []string{other}, ExternalID: "customer-42"},
		simaws.Role{Account: account, Name: "ours", Trusted: []string{other}, ExternalID: aws.ExternalID("cluster", "ns/account")},
		simaws.Role{Account: account, Name: "theirs", Trusted: []string{other}, ExternalID: aws.ExternalID("cluster", "ns/another")})
	l := newLab(t, sim.Options{State: state})
	role, ours, theirs := "arn:aws:iam::"+account+":role/nephele", "arn:aws:iam::"+account+":role/ours", "arn:aws:iam::"+account+":role/theirs"
	hub := l.ambient(credentials.NewStaticCredentialsProvider("AKIAHUB", "hub", ""))
	for _, c := range []struct {
		name    string
		cred    v1alpha1.AWSCredential
		ambient *aws.Ambient
		want    cloud.Class
		code    string
	}{
		{name: "keys", cred: v1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret}},
		{name: "keys and token", cred: v1alpha1.AWSCredential{AccessKeyID: "ASIATEMP", AccessKeySecret: "temp", SessionToken: "token"}},
		{name: "role with keys", cred: v1alpha1.AWSCredential{
			AccessKeyID: "AKIAHUB", AccessKeySecret: "hub", RoleArn: role, ExternalID: "customer-42"}},
		{name: "role with the identity of the process", ambient: hub, cred: v1alpha1.AWSCredential{RoleArn: ours}},
		{name: "unknown key", want: cloud.Auth, code: "InvalidClientTokenId",
			cred: v1alpha1.AWSCredential{AccessKeyID: "AKIANOBODY", AccessKeySecret: "x"}},
		{name: "wrong secret", want: cloud.Auth, code: "SignatureDoesNotMatch",
			cred: v1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: "x"}},
		{name: "token missing", want: cloud.Auth, code: "InvalidClientTokenId",
			cred: v1alpha1.AWSCredential{AccessKeyID: "ASIATEMP", AccessKeySecret: "temp"}},
		{name: "wrong external id", want: cloud.Auth, code: "AccessDenied",
			cred: v1alpha1.AWSCredential{AccessKeyID: "AKIAHUB", AccessKeySecret: "hub", RoleArn: role, ExternalID: "customer-43"}},
		{name: "role of another account of ours", want: cloud.Auth, code: "AccessDenied", ambient: hub, cred: v1alpha1.AWSCredential{RoleArn: theirs}},
		{name: "unknown role", want: cloud.Auth, code: "AccessDenied", ambient: hub, cred: v1alpha1.AWSCredential{RoleArn: ours + "s"}},
		{name: "no identity", want: cloud.Auth, cred: v1alpha1.AWSCredential{RoleArn: ours}, ambient: l.ambient(noIdentity())},
	} {
		p := l.open(aws.Config{Credential: c.cred, Ambient: c.ambient, Cluster: "cluster", Account: "ns/account"})
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

// ambient is the identity of a process whose environment names the simulator as the place of all
// services.
func (l *lab) ambient(p awssdk.CredentialsProvider) *aws.Ambient {
	return &aws.Ambient{Config: awssdk.Config{Credentials: p, BaseEndpoint: awssdk.String(l.server.URL())}}
}

// noIdentity is that of a process without one.
func noIdentity() awssdk.CredentialsProvider {
	return awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) {
		return awssdk.Credentials{}, errors.New("none here")
	})
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
	// A region may also answer that it does not know the credentials; whether they are good
	// elsewhere tells the two apart.
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

// TestAdmit checks the place where callers share a rate: every attempt passes it, and learns how it
// ended.
func TestAdmit(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	var mu sync.Mutex
	var seen []string
	full := errors.New("no more")
	deny := false
	p := l.open(aws.Config{Admit: func(_ context.Context, owner, r, action string) (func(cloud.Class), error) {
		mu.Lock()
		defer mu.Unlock()
		if deny {
			return nil, full
		}
		return func(c cloud.Class) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, strings.TrimSpace(owner+" "+r+" "+action+" "+string(c)))
		}, nil
	}})
	l.server.Faults().Add(ec2.Fault{Action: "CreateTags", Code: "RequestLimitExceeded", Times: 2})
	op := cloud.Op{Kind: cloud.OpTag, Target: network, Tags: map[string]string{"a": "1"}}
	if _, err := p.Apply(t.Context(), l.scope(), op); err != nil {
		t.Fatal(err)
	}
	owner, err := p.OwnerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tags := owner + " " + region + " CreateTags"
	throttled := tags + " " + string(cloud.Throttled)
	if want := []string{region + " GetCallerIdentity", throttled, throttled, tags}; !slices.Equal(seen, want) {
		t.Errorf("seen %q; want %q", seen, want)
	}
	deny = true
	if _, err := p.Apply(t.Context(), l.scope(), op); !errors.Is(err, full) || cloud.ClassOf(err) != cloud.Unavailable {
		t.Errorf("refused admission: %v", err)
	}
}

// TestOwnerChanged: with credentials of another cloud account than before, nothing is read or
// changed.
func TestOwnerChanged(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	p := l.open(aws.Config{Owner: "999999999999"})
	_, readErr := p.Observe(t.Context(), l.scope())
	_, writeErr := p.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpTag, Target: network, Tags: map[string]string{"a": "1"}})
	for _, err := range []error{readErr, writeErr} {
		if cloud.ClassOf(err) != cloud.Auth || !strings.Contains(err.Error(), "was 999999999999 until now") {
			t.Errorf("got %v", err)
		}
	}
	for _, action := range l.actions() {
		if action != "GetCallerIdentity" {
			t.Errorf("called %s", action)
		}
	}
	owner, err := l.provider.OwnerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.open(aws.Config{Owner: owner}).Observe(t.Context(), l.scope()); err != nil {
		t.Error(err)
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
	if want := (cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, RulesPerInterface: 1000, GroupsPerRegion: 2500, TagsPerResource: 50}); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	p := l.open(aws.Config{Limits: func(string) cloud.Limits { return cloud.Limits{RulesPerGroup: 200} }})
	if got, _ := p.Limits(t.Context(), l.scope()); got.RulesPerGroup != 200 || got.GroupsPerInterface != 5 {
		t.Errorf("%+v", got)
	}
}

// TestNoBrokenConnections: without retries, many fast calls beside one another all succeed; see
// calmClient.
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
		"GetCallerIdentity: AccessDenied (Auth): no usable credentials: not yours [POST ": l.open(aws.Config{
			Credential: v1alpha1.AWSCredential{RoleArn: "arn:aws:iam::123456789012:role/x"},
			Ambient:    l.ambient(credentials.NewStaticCredentialsProvider(estate.DefaultAccessKeyID, estate.DefaultSecret, ""))}),
		"GetCallerIdentity (Auth): no usable credentials: failed to refresh cached credentials, none here": l.open(aws.Config{
			Credential: v1alpha1.AWSCredential{RoleArn: "arn:aws:iam::123456789012:role/x"},
			Ambient:    l.ambient(noIdentity())}),
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
