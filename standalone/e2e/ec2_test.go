package e2e

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// ec2Client is the account owner's own client.
func (im *imported) ec2Client(region string) *ec2.Client {
	return ec2.New(ec2.Options{Region: region, BaseEndpoint: aws.String(im.server.URL()),
		Credentials: credentials.NewStaticCredentialsProvider(estate.DefaultAccessKeyID, estate.DefaultSecret, "")})
}

// launchAndTerminate starts a VM beside an existing one, lets it take part in the policies, and
// ends it.
func (im *imported) launchAndTerminate(ac accountCase) {
	t := im.t
	t.Helper()
	region, subnet, groups := im.placeOf(firstWithRole(ac, "db"))
	api := im.ec2Client(region)
	out, err := api.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String("ami-12345678"), InstanceType: ec2types.InstanceTypeT3Micro, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SubnetId: aws.String(subnet), SecurityGroupIds: groups,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{
			{Key: aws.String("role"), Value: aws.String("db")}, {Key: aws.String("Name"), Value: aws.String("newcomer")}}}},
	})
	im.must(err)
	vm := *out.Instances[0].InstanceId
	for _, r := range im.server.World().State().Regions {
		for _, n := range r.NetworkInterfaces {
			if n.Attachment != nil && n.Attachment.InstanceID == vm {
				im.oracle.native[n.ID] = groups
			}
		}
	}
	// The inventory sees the VM at its next poll; a user who does not want to wait edits the
	// selector.
	im.readNow()
	eventually(t, "the new VM as ExternalEntity", func(ctx context.Context) (bool, string) {
		why := im.readEntities(ctx)
		return why == "" && im.entityOf(vm) != nil, fmt.Sprintf("%d entities %s", len(im.oracle.entities), why)
	})
	im.flows = flowsOf(im.server.World().State(), outsideAddresses, boundaryServices(policyPorts...))
	want, err := im.oracle.expect(im.server.World().State(), im.flows)
	im.must(err)
	im.settle("new VM", want)

	_, err = api.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{vm}})
	im.must(err)
	im.readNow()
	eventually(t, "the terminated VM's ExternalEntity is gone", func(ctx context.Context) (bool, string) {
		why := im.readEntities(ctx)
		return why == "" && im.entityOf(vm) == nil, fmt.Sprintf("%d entities %s", len(im.oracle.entities), why)
	})
	im.flows = flowsOf(im.server.World().State(), outsideAddresses, boundaryServices(policyPorts...))
	want, err = im.oracle.expect(im.server.World().State(), im.flows)
	im.must(err)
	im.settle("terminated VM", want)
}

func (im *imported) entityOf(vm string) *v1alpha2.ExternalEntity {
	for _, x := range im.oracle.entities {
		if x.Name == cloudv1.EntityNamePrefix+vm {
			return x
		}
	}
	return nil
}

// placeOf returns where a VM stands and which groups it has natively.
func (im *imported) placeOf(vm string) (region, subnet string, groups []string) {
	for _, r := range im.server.World().State().Regions {
		for _, n := range r.NetworkInterfaces {
			if n.Attachment != nil && n.Attachment.InstanceID == vm && n.Attachment.DeviceIndex == 0 {
				return r.Name, n.SubnetID, im.oracle.native[n.ID]
			}
		}
	}
	im.t.Fatalf("%s has no interface", vm)
	return "", "", nil
}
