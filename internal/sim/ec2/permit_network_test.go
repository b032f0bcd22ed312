package ec2_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/iam"
)

// TestRightsOfNetworks gives a caller rights on what has a tag, and on nothing else.
func TestRightsOfNetworks(t *testing.T) {
	policy, err := iam.Parse([]byte(`{"Version": "2012-10-17", "Statement": [
		{"Effect": "Allow", "Action": ["ec2:DeleteSubnet", "ec2:CreateRoute", "ec2:DeleteNetworkAcl", "ec2:AttachNetworkInterface"], "Resource": "*",
		 "Condition": {"StringEquals": {"ec2:ResourceTag/team": "shop"}}},
		{"Effect": "Allow", "Action": "ec2:CreateRouteTable", "Resource": ["arn:aws:ec2:*:*:route-table/*", "arn:aws:ec2:*:*:vpc/*"]},
		{"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "arn:aws:ec2:*:*:route-table/*", "Condition": {"StringEquals": {"aws:RequestTag/team": "shop"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	state := startState()
	state.Credentials = append(state.Credentials, simaws.Credential{AccessKeyID: "AKIALIMITED", Secret: secret, Account: home, User: "limited", Policy: policy})
	f := start(t, sim.Options{State: state})
	owner, limited := f.client(), awsec2.NewFromConfig(f.config("AKIALIMITED", secret, ""))
	table := func(c *awsec2.Client, tag string) (string, error) {
		in := &awsec2.CreateRouteTableInput{VpcId: aws.String(defaultID)}
		if tag != "" {
			in.TagSpecifications = spec("route-table", "x")
			in.TagSpecifications[0].Tags[0].Key, in.TagSpecifications[0].Tags[0].Value = aws.String("team"), &tag
		}
		out, err := c.CreateRouteTable(f.ctx, in)
		if err != nil {
			return "", err
		}
		return aws.ToString(out.RouteTable.RouteTableId), nil
	}
	mine, err := table(limited, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table(limited, "bank"); code(t, err) != "UnauthorizedOperation" || !strings.Contains(err.Error(), "ec2:CreateTags") {
		t.Errorf("a tag that may not be given: %v", err)
	}
	theirs, err := table(owner, "bank")
	if err != nil {
		t.Fatal(err)
	}
	route := func(table string) error {
		_, err := limited.CreateRoute(
			f.ctx,
			&awsec2.CreateRouteInput{RouteTableId: &table, DestinationCidrBlock: aws.String("10.9.0.0/16"), NatGatewayId: aws.String("nat-00000001")},
		)
		return err
	}
	if err := route(mine); err != nil {
		t.Error(err)
	}
	if err := route(theirs); code(t, err) != "UnauthorizedOperation" || !strings.Contains(err.Error(), ":route-table/"+theirs) {
		t.Errorf("a table of others: %v", err)
	}
	_, err = limited.DeleteSubnet(f.ctx, &awsec2.DeleteSubnetInput{SubnetId: aws.String(subnetID)})
	if code(t, err) != "UnauthorizedOperation" || !strings.Contains(err.Error(), ":subnet/"+subnetID) {
		t.Errorf("a subnet without the tag: %v", err)
	}
	_, err = limited.CreateInternetGateway(f.ctx, &awsec2.CreateInternetGatewayInput{})
	if code(t, err) != "UnauthorizedOperation" {
		t.Errorf("an action that is not named: %v", err)
	}
}
