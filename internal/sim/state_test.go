package sim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/nephele-io/nephele/internal/sim"
)

// TestStateFile: what a client was told is in the file at that moment, even with many clients at
// once.
func TestStateFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	s := start(t, sim.Options{StateFile: file})
	build(t, s)
	ctx := context.Background()
	vpcs, err := client(s).DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			out, err := client(s).CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{
				GroupName: aws.String(fmt.Sprint("g", n)), Description: aws.String("d"), VpcId: vpcs.Vpcs[0].VpcId,
			})
			if err != nil {
				t.Error(err)
				return
			}
			data, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(data), aws.ToString(out.GroupId)) {
				t.Errorf("%s is not in the file: %v", aws.ToString(out.GroupId), err)
			}
		})
	}
	wg.Wait()
	// A copy of the file is what a killed simulator leaves behind.
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(t.TempDir(), "left.json")
	if err := os.WriteFile(left, data, 0o600); err != nil {
		t.Fatal(err)
	}
	again := start(t, sim.Options{StateFile: left})
	groups, err := client(again).DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{})
	if err != nil || len(groups.SecurityGroups) != 17 {
		t.Errorf("after the restart: %d groups, %v", len(groups.SecurityGroups), err)
	}
}

// TestStateFileFails: a change that cannot be kept must not be confirmed.
func TestStateFileFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := sim.Start(context.Background(), sim.Options{State: small(), StateFile: filepath.Join(dir, "state.json")})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err = client(s).CreateVpc(context.Background(), &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "InternalError" {
		t.Errorf("the file cannot be written: %v", err)
	}
	if first, second := s.Close(), s.Close(); first == nil || !errors.Is(second, os.ErrNotExist) {
		t.Errorf("close says %v, then %v", first, second)
	}
}
