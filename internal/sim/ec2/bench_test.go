package ec2_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/nephele-io/nephele/internal/sim"
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
