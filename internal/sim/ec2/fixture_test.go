package ec2_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
)

const (
	home      = "111111111111" // the account that tests call with
	other     = "222222222222"
	region    = "eu-west-1"
	keyID     = "AKIAIOSFODNN7EXAMPLE"
	secret    = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	otherKey  = "AKIAI44QH8DHBEXAMPLE"
	defaultID = "vpc-0000000000000000d"
	subnetID  = "subnet-0000000000000000d"
	groupID   = "sg-0000000000000000d"
	peeringID = "pcx-0000000000000000d"
	otherVPC  = "vpc-0000000000000000e"
	otherSG   = "sg-0000000000000000e"
)

// fixture is a running simulator: two accounts whose default VPCs are peered, and nothing in them.
type fixture struct {
	*sim.Server
	ctx context.Context
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func defaultVPC(account, vpc, subnet, group, v4, v6 string) simaws.RegionState {
	open := func(id, cidr string) simaws.SecurityGroupRule {
		return simaws.SecurityGroupRule{
			ID: id, GroupID: group, Account: account, Egress: true, Protocol: "-1", FromPort: -1, ToPort: -1, CIDR: prefix(cidr),
		}
	}
	suffix := group[len("sg-"):]
	return simaws.RegionState{
		Account: account, Name: region,
		VPCs: []simaws.VPC{{
			ID: vpc, Account: account, Region: region, IsDefault: true, State: "available", Tenancy: "default",
			DHCPOptionsID: "dopt-00000001",
			CIDRs: []simaws.CIDRBlock{
				{AssociationID: "vpc-cidr-assoc-1", Prefix: prefix(v4)}, {AssociationID: "vpc-cidr-assoc-2", Prefix: prefix(v6)},
			},
			Tags: simaws.Tags{"Name": "first", "empty": ""},
		}},
		Subnets: []simaws.Subnet{{
			ID: subnet, Account: account, VPCID: vpc, CIDR: prefix(v4), State: "available", DefaultForAZ: true,
			MapPublicIPOnLaunch: true, IPv6: []simaws.CIDRBlock{{AssociationID: "subnet-cidr-assoc-1", Prefix: prefix(v6)}},
			Zone: simaws.Zone{Name: region + "a", ID: "euw1-az1"},
		}},
		SecurityGroups: []simaws.SecurityGroup{{
			ID: group, Account: account, VPCID: vpc, Name: "default", Description: "default VPC security group",
			Rules: []simaws.SecurityGroupRule{
				open("sgr-1"+suffix[1:], "0.0.0.0/0"), open("sgr-2"+suffix[1:], "::/0"),
			},
		}},
		Zones: []simaws.Zone{{Name: region + "a", ID: "euw1-az1"}, {Name: region + "b", ID: "euw1-az2"}},
	}
}

func startState() simaws.State {
	side := func(account, vpc, cidr string) simaws.PeeringVPC {
		return simaws.PeeringVPC{VPCID: vpc, Account: account, Region: region, CIDRs: []netip.Prefix{prefix(cidr)}}
	}
	return simaws.State{
		Accounts: []simaws.Account{{ID: home, Regions: []string{region, "us-east-1"}}, {ID: other, Regions: []string{region, "ap-east-1"}}},
		Credentials: []simaws.Credential{
			{AccessKeyID: keyID, Secret: secret, Account: home, User: "tester"},
			{AccessKeyID: otherKey, Secret: secret, Account: other},
		},
		Roles: []simaws.Role{{Account: other, Name: "guest", Trusted: []string{home}, ExternalID: "shibboleth"}},
		Regions: []simaws.RegionState{
			defaultVPC(home, defaultID, subnetID, groupID, "10.0.0.0/16", "2001:db8:1::/64"),
			defaultVPC(other, otherVPC, "subnet-0000000000000000e", otherSG, "10.1.0.0/16", "2001:db8:2::/64"),
		},
		Peerings: []simaws.PeeringConnection{{
			ID: peeringID, Status: simaws.PeeringActive, Message: "Active", Tags: simaws.Tags{"Name": "bridge"},
			Requester: side(home, defaultID, "10.0.0.0/16"), Accepter: side(other, otherVPC, "10.1.0.0/16"),
		}},
	}
}

func start(t *testing.T, o sim.Options) *fixture {
	t.Helper()
	if o.State.Accounts == nil {
		o.State = startState()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	s, err := sim.Start(ctx, o)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &fixture{Server: s, ctx: ctx}
}

// config is a client configuration with quick retries.
func (f *fixture) config(key, secret, token string) aws.Config {
	return aws.Config{
		Region:       region,
		Credentials:  credentials.NewStaticCredentialsProvider(key, secret, token),
		BaseEndpoint: aws.String(f.URL()),
		HTTPClient:   &http.Client{Timeout: 30 * time.Second, Transport: sim.Transport(&http.Transport{})},
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = 5 * time.Millisecond })
		},
	}
}

func (f *fixture) client() *awsec2.Client {
	return awsec2.NewFromConfig(f.config(keyID, secret, ""))
}

func (f *fixture) sts() *sts.Client { return sts.NewFromConfig(f.config(keyID, secret, "")) }

// code returns the API error code, "" for success, and fails on any other kind of error.
func code(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Fatalf("no API error: %v", err)
	}
	return api.ErrorCode()
}

func status(err error) int {
	var response interface{ HTTPStatusCode() int }
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

func tcp(from, to int32, cidrs ...string) types.IpPermission {
	p := types.IpPermission{IpProtocol: aws.String("tcp"), FromPort: &from, ToPort: &to}
	for _, c := range cidrs {
		if netip.MustParsePrefix(c).Addr().Is4() {
			p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: &c})
		} else {
			p.Ipv6Ranges = append(p.Ipv6Ranges, types.Ipv6Range{CidrIpv6: &c})
		}
	}
	return p
}

func (f *fixture) group(t *testing.T, c *awsec2.Client, name string) string {
	t.Helper()
	out, err := c.CreateSecurityGroup(f.ctx, &awsec2.CreateSecurityGroupInput{
		GroupName: &name, Description: aws.String("made by a test"), VpcId: aws.String(defaultID),
	})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.GroupId)
}

func (f *fixture) run(t *testing.T, c *awsec2.Client, n int32) []string {
	t.Helper()
	out, err := c.RunInstances(f.ctx, &awsec2.RunInstancesInput{
		ImageId: aws.String("ami-12345678"), MinCount: &n, MaxCount: &n, SubnetId: aws.String(subnetID),
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, i := range out.Instances {
		ids = append(ids, aws.ToString(i.InstanceId))
	}
	return ids
}

// testClock is a base clock that only tests move.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}
