package ec2_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// BenchmarkDescribeInstances reads an account of a thousand machines in one page, client included.
func BenchmarkDescribeInstances(b *testing.B) {
	s, err := sim.Start(context.Background(), sim.Options{State: startState()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	f := &fixture{Server: s, ctx: context.Background()}
	c := f.client()
	n := int32(1000)
	if _, err := c.RunInstances(f.ctx, &awsec2.RunInstancesInput{
		ImageId: aws.String("ami-12345678"), MinCount: &n, MaxCount: &n, SubnetId: aws.String(subnetID),
	}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		out, err := c.DescribeInstances(f.ctx, &awsec2.DescribeInstancesInput{})
		if err != nil || len(out.Reservations[0].Instances) != int(n) {
			b.Fatal(len(out.Reservations), err)
		}
	}
}

// BenchmarkCreateAndDelete measures two small mutations, client included.
func BenchmarkCreateAndDelete(b *testing.B) {
	s, err := sim.Start(context.Background(), sim.Options{State: startState()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	f := &fixture{Server: s, ctx: context.Background()}
	c := f.client()
	for i := 0; b.Loop(); i++ {
		out, err := c.CreateSecurityGroup(f.ctx, newGroup(fmt.Sprint("g", i)))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.DeleteSecurityGroup(f.ctx, &awsec2.DeleteSecurityGroupInput{GroupId: out.GroupId}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkServices reads 1,000 native services of all kinds over the wire, with their listeners,
// target groups and tags, as an inventory does it.
func BenchmarkServices(b *testing.B) {
	state := startState()
	at := &state.Regions[0]
	add := func(s native.Service, nodes int) {
		s.Account, s.Region, s.VPCID, s.Subnets = home, region, defaultID, []string{subnetID}
		if s.Kind != native.NetBalancer {
			s.Groups = []string{groupID}
		}
		for range nodes {
			s.Nodes = append(s.Nodes, native.Node{SubnetID: subnetID})
		}
		at.Services = append(at.Services, s)
	}
	for i := range 200 {
		name := fmt.Sprintf("x-%03d", i)
		target := native.TargetGroup{Name: name + "/" + native.Hex(name), Account: home, Region: region, VPCID: defaultID, Type: "ip", Protocol: "HTTP", Port: 80}
		at.TargetGroups = append(at.TargetGroups, target)
		add(native.Service{Kind: native.Database, Name: name, Engine: "mysql"}, 1)
		add(native.Service{Kind: native.Cache, Name: name, Engine: "redis"}, 1)
		add(native.Service{Kind: native.AppBalancer, Name: native.BalancerName(native.AppBalancer, home, region, name),
			Listeners: []native.Listener{{ID: native.Hex(name), Protocol: "HTTP", Port: 80, Target: target.Name}}}, 2)
		add(native.Service{Kind: native.Endpoint, Name: fmt.Sprintf("vpce-%08x", i), Engine: "com.amazonaws.eu-west-1.sqs"}, 1)
		add(native.Service{Kind: native.Function, Name: name}, 1)
	}
	ctx := context.Background()
	s, err := sim.Start(ctx, sim.Options{State: state})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	cfg := (&fixture{Server: s, ctx: ctx}).config(keyID, secret, "")
	for b.Loop() {
		for name, call := range reads(ctx, cfg) {
			if err := call(); err != nil {
				b.Fatalf("%s: %v", name, err)
			}
		}
		if _, err := elb.NewFromConfig(cfg).DescribeTargetGroups(ctx, &elb.DescribeTargetGroupsInput{}); err != nil {
			b.Fatal(err)
		}
		for i := range at.Services {
			if x := &at.Services[i]; x.Kind == native.Database && len(s.World().LookUp(x.HostName())) != 1 {
				b.Fatalf("%s is nowhere", x.HostName())
			}
		}
	}
}
