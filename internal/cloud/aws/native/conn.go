package native

import (
	"context"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
)

// Conn is how an account is called in one region.
type Conn struct {
	Region string
	// Base is what the clients of the services' APIs are made of.
	Base awssdk.Config
	EC2  Calls
	// Owner is the account's own number, empty while the cloud has not told it.
	Owner  func() string
	Bounds cloud.Bounds
	// PageSize is the number of items that EC2 is asked for per page.
	PageSize int32
	// Fresh reports whether one of the groups was created moments ago, and Visible repeats a call
	// that needs groups while it does not see one of these, and do says so.
	Fresh   func(groups []string) bool
	Visible func(ctx context.Context, call string, groups []string, do func() error) error
	// FirstWait is the first wait between two attempts; it doubles up to MaxWait.
	FirstWait, MaxWait time.Duration
	Now                func() time.Time
	Sleep              func(ctx context.Context, d time.Duration) error
}

// Calls are the operations of EC2 that are needed.
type Calls struct {
	CreateTags                func(context.Context, *ec2.CreateTagsInput, ...func(*ec2.Options)) (*ec2.CreateTagsOutput, error)
	DeleteTags                func(context.Context, *ec2.DeleteTagsInput, ...func(*ec2.Options)) (*ec2.DeleteTagsOutput, error)
	DescribeNetworkInterfaces func(context.Context, *ec2.DescribeNetworkInterfacesInput, ...func(*ec2.Options)) (*ec2.DescribeNetworkInterfacesOutput, error)
	DescribeVpcEndpoints      func(context.Context, *ec2.DescribeVpcEndpointsInput, ...func(*ec2.Options)) (*ec2.DescribeVpcEndpointsOutput, error)
	ModifyVpcEndpoint         func(context.Context, *ec2.ModifyVpcEndpointInput, ...func(*ec2.Options)) (*ec2.ModifyVpcEndpointOutput, error)
}

func (c *Conn) classify(call string, err error) error { return failure.Classify(call, err, c.Now()) }

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: awssdk.String(name), Values: values}
}
