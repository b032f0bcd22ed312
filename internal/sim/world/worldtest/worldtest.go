// Package worldtest has a small world for tests of the calls: two accounts in two regions, of which
// the first has a VPC with two subnets, and a clock that tests move.
package worldtest

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// The accounts and regions.
const (
	AccountA = "111111111111"
	AccountB = "222222222222"
	East     = "us-east-1"
	West     = "us-west-2"
)

// Clock is a clock that tests move. It is safe for concurrent use.
type Clock struct {
	mu sync.Mutex
	t  time.Time
}

// NewClock returns a clock at a fixed time.
func NewClock() *Clock { return &Clock{t: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)} }

// Now tells the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// Bench is the world with its handles.
type Bench struct {
	T       *testing.T
	World   *world.World
	Clock   *Clock
	Region  *world.Region // account A, west
	VPC     aws.VPC
	Subnets [2]aws.Subnet
}

// Must fails the test if a call did.
func Must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// New makes the world.
func New(t *testing.T, o world.Options) *Bench {
	t.Helper()
	b := &Bench{T: t, Clock: NewClock()}
	o.Clock = b.Clock.Now
	b.World = Must[*world.World](t)(world.New(aws.State{
		Accounts:    []aws.Account{{ID: AccountA, Regions: []string{East, West}}, {ID: AccountB, Regions: []string{East, West}}},
		Credentials: []aws.Credential{{AccessKeyID: "AKIATESTTESTTESTTEST", Secret: "secret", Account: AccountA}},
		Roles:       []aws.Role{{Account: AccountB, Name: "reader", Trusted: []string{AccountA}, ExternalID: "x1"}},
	}, o))
	b.Region = Must[*world.Region](t)(b.World.Region(AccountA, West))
	b.VPC = Must[aws.VPC](t)(b.Region.Networks().CreateVPC(aws.CreateVPCInput{CIDR: "10.0.0.0/16", AmazonProvidedIPv6: true, Tags: aws.Tags{"Name": "main"}}))
	b.Clock.Advance(o.VisibilityDelay)
	for i := range b.Subnets {
		bytes := b.VPC.CIDRs[1].Prefix.Addr().As16()
		bytes[7] = byte(i)
		six := netip.PrefixFrom(netip.AddrFrom16(bytes), 64).String()
		b.Subnets[i] = Must[aws.Subnet](t)(b.Region.Networks().CreateSubnet(aws.CreateSubnetInput{VPCID: b.VPC.ID, CIDR: fmt.Sprintf("10.0.%d.0/24", i), IPv6CIDR: six}))
	}
	b.Clock.Advance(o.VisibilityDelay)
	return b
}

// Group makes a security group in the VPC and returns its id.
func (b *Bench) Group(name string) string {
	b.T.Helper()
	return Must[aws.SecurityGroup](b.T)(b.Region.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: name, Description: "test", VPCID: b.VPC.ID})).ID
}

// Run runs one instance, in the first subnet if no other place is given.
func (b *Bench) Run(in aws.RunInstancesInput) aws.Instance {
	b.T.Helper()
	if in.SubnetID == "" && len(in.Interfaces) == 0 {
		in.SubnetID = b.Subnets[0].ID
	}
	in.ImageID, in.MinCount, in.MaxCount = "ami-00000000", 1, 1
	return Must[aws.Reservation](b.T)(b.Region.InstanceCalls().RunInstances(in)).Instances[0]
}

// Rules returns the rules of a group in words.
func (b *Bench) Rules(group string) []string {
	b.T.Helper()
	var out []string
	for _, x := range Must[[]aws.SecurityGroup](b.T)(b.Region.SecurityGroups(group))[0].Rules {
		out = append(out, x.String())
	}
	return out
}

// Allow adds ingress rules to a group.
func (b *Bench) Allow(group string, perms ...aws.Permission) error {
	_, err := b.Region.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: group, Permissions: perms})
	return err
}

// Num and Text are optional parameters that are given.
func Num(n int32) *int32 { return &n }

// Text is like Num.
func Text(s string) *string { return &s }

// TCP is a permission for one TCP port with blocks as peers.
func TCP(port int32, cidrs ...string) aws.Permission {
	p := aws.Permission{Protocol: "tcp", FromPort: Num(port), ToPort: Num(port)}
	for _, c := range cidrs {
		p.CIDRs = append(p.CIDRs, aws.CIDRPeer{CIDR: c, IPv6: strings.Contains(c, ":")})
	}
	return p
}

// FromGroup adds groups to the peers of a permission.
func FromGroup(p aws.Permission, ids ...string) aws.Permission {
	for _, id := range ids {
		p.Groups = append(p.Groups, aws.GroupRef{GroupID: id})
	}
	return p
}

// WantRefusal checks code and message of a refusal.
func WantRefusal(t *testing.T, what string, err error, code, message string) {
	t.Helper()
	var e *aws.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, message) {
		t.Errorf("%s: error %v, want %s: %s", what, err, code, message)
	}
}
