package aws_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/cloudtest"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
	simworld "github.com/nephele-io/nephele/internal/sim/world"
)

const (
	region  = "us-west-2"
	network = "vpc-b390fad5" // "Arista Demo" of the hybrid-cloud account
)

func TestConformance(t *testing.T) {
	t.Parallel()
	cloudtest.Run(t, func(t *testing.T) cloudtest.World { return newLab(t, sim.Options{}).world() })
}

// clock is a time that moves only when somebody sleeps.
type clock struct {
	mu  sync.Mutex
	now time.Time
	// slept counts the waits by their length.
	slept map[time.Duration]int
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	if c.slept == nil {
		c.slept = map[time.Duration]int{}
	}
	c.slept[d]++
	return ctx.Err()
}

// waits is how often so long a time was waited for.
func (c *clock) waits(d time.Duration) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slept[d]
}

// lab is a simulator with the hybrid-cloud account and a provider that talks to it.
type lab struct {
	*testing.T
	server   *sim.Server
	clock    *clock
	account  string
	provider *aws.Provider
}

func newLab(t *testing.T, o sim.Options) *lab {
	t.Helper()
	l := &lab{T: t, clock: &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	if o.State.Accounts == nil {
		state, _, err := estate.HybridCloud()
		if err != nil {
			t.Fatal(err)
		}
		o.State = state
	}
	o.Clock, o.Seed = l.clock.read, 1
	var err error
	if l.server, err = sim.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.server.Close(); err != nil {
			t.Error(err)
		}
	})
	l.account = l.server.World().Accounts()[0].ID
	l.provider = l.open(aws.Config{})
	return l
}

// open returns a provider for the simulator; the credentials default to the estate's.
func (l *lab) open(cfg aws.Config) *aws.Provider {
	l.Helper()
	if cfg.Credential == (v1alpha1.AWSCredential{}) {
		cfg.Credential = v1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret}
	}
	if cfg.Region == "" {
		cfg.Region = region
	}
	if cfg.Ambient == nil { // else the environment names the simulator
		cfg.Endpoint = l.server.URL()
	}
	cfg.Now, cfg.Sleep = l.clock.read, l.clock.sleep
	if cfg.MaxAttempts == 0 {
		cfg.MaxAttempts = 3
	}
	cfg.MaxBackoff, cfg.Consistency, cfg.UserAgent = time.Millisecond, 20*time.Second, "nephele/test"
	p, err := aws.New(cfg)
	if err != nil {
		l.Fatal(err)
	}
	return p
}

func (l *lab) scope() cloud.Scope { return cloud.Scope{Account: "ns/account", Region: region} }

func (l *lab) region() *simworld.Region {
	l.Helper()
	r, err := l.server.World().Region(l.account, region)
	if err != nil {
		l.Fatal(err)
	}
	return r
}

func (l *lab) world() cloudtest.World {
	list, err := l.region().Lists().CreatePrefixList(simaws.CreatePrefixListInput{
		Name: "offices", Family: "IPv4", MaxEntries: 5, Entries: []simaws.EntrySpec{{CIDR: "203.0.113.0/24"}},
	})
	if err != nil {
		l.Fatal(err)
	}
	l.addRuleOfList(list.ID)
	return cloudtest.World{
		Provider: l.provider, Scope: l.scope(), Network: network, Other: "vpc-925131f4", ListOfPrefixes: list.ID,
		Reads: []string{"DescribeVpcs", "DescribeVpcPeeringConnections", "DescribeInstances", "DescribeNetworkInterfaces",
			"DescribeSecurityGroups", "DescribeManagedPrefixLists", "GetManagedPrefixListEntries"},
		Writes: map[cloud.OpKind][]string{
			cloud.OpCreateGroup:        {"CreateSecurityGroup", "DescribeSecurityGroups", "RevokeSecurityGroupEgress"},
			cloud.OpAddRules:           {"AuthorizeSecurityGroupIngress"},
			cloud.OpRemoveRules:        {"RevokeSecurityGroupIngress"},
			cloud.OpReplaceRules:       {"DescribeSecurityGroupRules", "ModifySecurityGroupRules"},
			cloud.OpSetInterfaceGroups: {"ModifyNetworkInterfaceAttribute"},
			cloud.OpTag:                {"CreateTags"},
			cloud.OpUntag:              {"DeleteTags"},
			cloud.OpDeleteGroup:        {"DeleteSecurityGroup"},
		},
		Disturb: l.disturb, Calm: l.server.Faults().Clear,
		Delay: l.server.World().SetVisibilityDelay, Patience: 20 * time.Second,
		CreateForeign: func(name string) string {
			g, err := l.region().Groups().CreateSecurityGroup(simaws.CreateSecurityGroupInput{Name: name, Description: "d", VPCID: network,
				Tags: simaws.Tags{cloud.TagCluster: "somebody else"}})
			if err != nil {
				l.Fatal(err)
			}
			return g.ID
		},
	}
}

// addRuleOfList makes a group of the account refer to the prefix list, so that observing it is part
// of every observation.
func (l *lab) addRuleOfList(id string) {
	l.Helper()
	groups, err := l.region().SecurityGroups()
	if err != nil {
		l.Fatal(err)
	}
	_, err = l.region().Groups().AuthorizeSecurityGroup(simaws.AuthorizeInput{GroupID: groups[0].ID, Permissions: []simaws.Permission{
		{Protocol: "-1", PrefixLists: []simaws.PrefixListPeer{{PrefixListID: id}}}}})
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) disturb(call string, d cloudtest.Disturbance, times int) {
	f := ec2.Fault{Action: call, Times: times}
	switch d {
	case cloudtest.LostAnswer:
		f.LoseAnswer = true
	case cloudtest.NoConnection:
		f.Drop = true
	case cloudtest.Throttle:
		f.Code = "RequestLimitExceeded"
	case cloudtest.Broken:
		f.Code = "InternalError"
	case cloudtest.Refused:
		f.Code = "UnauthorizedOperation"
	default:
		l.Fatalf("no such disturbance: %s", d)
	}
	l.server.Faults().Add(f)
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
