package ec2_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

func newGroup(name string) *awsec2.CreateSecurityGroupInput {
	return &awsec2.CreateSecurityGroupInput{GroupName: &name, Description: aws.String("d"), VpcId: aws.String(defaultID)}
}

func noRetry(o *awsec2.Options) { o.Retryer = aws.NopRetryer{} }

// TestLostAnswer is the nastiest fault: the call has worked, the client does not know, repeats it
// and is refused.
func TestLostAnswer(t *testing.T) {
	f := start(t, sim.Options{})
	f.Faults().Add(ec2.Fault{Action: "CreateSecurityGroup", LoseAnswer: true})
	_, err := f.client().CreateSecurityGroup(f.ctx, newGroup("lost"))
	if code(t, err) != "InvalidGroup.Duplicate" {
		t.Errorf("the repeated call: %v", err)
	}
	calls := f.Journal().Calls(0)
	if len(calls) != 2 || calls[0].Code != "" || !calls[0].AnswerLost || calls[1].Code != "InvalidGroup.Duplicate" {
		t.Errorf("journal %+v", calls)
	}

	group := f.group(t, f.client(), "rules")
	f.Faults().Add(ec2.Fault{Action: "AuthorizeSecurityGroupIngress", LoseAnswer: true, Params: map[string]string{"GroupId": group}})
	in := &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &group}
	in.IpPermissions = append(in.IpPermissions, tcp(1, 1, "10.0.0.0/8"))
	_, err = f.client().AuthorizeSecurityGroupIngress(f.ctx, in)
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "InvalidPermission.Duplicate" ||
		api.ErrorMessage() != `the specified rule "peer: 10.0.0.0/8, TCP, from port: 1, to port: 1, ALLOW" already exists` {
		t.Errorf("the repeated authorization: %v", err)
	}

	// RunInstances is idempotent by its ClientToken: the repetition gets the same machines.
	f.Faults().Add(ec2.Fault{Action: "RunInstances", LoseAnswer: true})
	ids := f.run(t, f.client(), 2)
	all, err := f.client().DescribeInstances(f.ctx, &awsec2.DescribeInstancesInput{})
	must(t, all, err)
	if len(all.Reservations) != 1 || len(all.Reservations[0].Instances) != 2 || len(ids) != 2 {
		t.Errorf("two machines were wanted: %+v", all.Reservations)
	}
}

func TestDroppedBefore(t *testing.T) {
	f := start(t, sim.Options{})
	f.Faults().Add(ec2.Fault{Action: "CreateSecurityGroup", Drop: true})
	if _, err := f.client().CreateSecurityGroup(f.ctx, newGroup("g"), noRetry); err == nil || errors.As(err, new(smithy.APIError)) {
		t.Errorf("a cut connection: %v", err)
	}
	if _, err := f.client().CreateSecurityGroup(f.ctx, newGroup("g")); err != nil {
		t.Errorf("the dropped call was executed: %v", err)
	}
	if calls := f.Journal().Calls(0); calls[0].Code != ec2.CodeDropped || calls[0].AnswerLost {
		t.Errorf("journal %+v", calls[0])
	}
}

// TestFaultCounts counts which calls a fault strikes.
func TestFaultCounts(t *testing.T) {
	f := start(t, sim.Options{})
	c := f.client()
	outcome := func(n int) string {
		var b strings.Builder
		for range n {
			if _, err := c.DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{}, noRetry); code(t, err) == "" {
				b.WriteByte('.')
			} else {
				b.WriteByte('x')
			}
		}
		return b.String()
	}
	for _, k := range []struct {
		fault ec2.Fault
		want  string
	}{
		{ec2.Fault{Action: "DescribeVpcs", Code: "X"}, "x....."},
		{ec2.Fault{Action: "DescribeVpcs", Code: "X", Nth: 3}, "..x..."},
		{ec2.Fault{Action: "*", Code: "X", Nth: 2, Times: 3}, ".xxx.."},
		{ec2.Fault{Action: "DescribeVpcs", Code: "X", Nth: 4, Times: -1}, "...xxx"},
		{ec2.Fault{Action: "DescribeSubnets", Code: "X", Times: -1}, "......"},
		{ec2.Fault{Action: "*", Code: "X", Times: -1, Account: other}, "......"},
		{ec2.Fault{Action: "*", Code: "X", Times: -1, Region: "us-east-1"}, "......"},
		{ec2.Fault{Action: "*", Code: "X", Times: -1, Params: map[string]string{"VpcId.1": "x"}}, "......"},
		{ec2.Fault{Action: "*", Code: "X", Times: -1, Match: func(c ec2.Call) bool { return c.Seq%2 == 0 }}, ".x.x.x"},
	} {
		f.Faults().Clear()
		f.Faults().Add(k.fault)
		if f.Journal().Total()%2 != 0 {
			t.Fatal("the numbers of calls are even between the cases")
		}
		if got := outcome(6); got != k.want {
			t.Errorf("%+v strikes %s, want %s", k.fault, got, k.want)
		}
	}
	f.Faults().Clear()
	id := f.Faults().Add(ec2.Fault{Action: "*", Code: "Unavailable", Message: "sorry", Times: -1})
	_, err := c.DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{}, noRetry)
	if code(t, err) != "Unavailable" || status(err) != 503 || !strings.Contains(err.Error(), "sorry") {
		t.Errorf("chosen error: %v", err)
	}
	f.Faults().Remove(id)
	if got := outcome(1); got != "." || len(f.Faults().List()) != 0 {
		t.Errorf("after removal: %s", got)
	}
	f.Faults().Add(ec2.Fault{Action: "*", Code: "InternalError"})
	if _, err := c.DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{}); err != nil {
		t.Errorf("the client repeats after a 500: %v", err)
	}
}

func TestDelays(t *testing.T) {
	f := start(t, sim.Options{Latency: 20 * time.Millisecond})
	f.Faults().Add(ec2.Fault{Action: "DescribeVpcs", Delay: time.Hour})
	ctx, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := f.client().DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that hangs: %v", err)
	}
	began := time.Now()
	if _, err := f.client().DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{}); err != nil || time.Since(began) < 20*time.Millisecond {
		t.Errorf("latency: %v after %s", err, time.Since(began))
	}
	// Close must not wait for a call that hangs.
	f.Faults().Add(ec2.Fault{Action: "DescribeVpcs", Delay: time.Hour})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := f.client().DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{}, noRetry)
		if err == nil {
			t.Error("a call that hung was answered at the end")
		}
	})
	for f.Journal().Total() < 3 {
		if f.ctx.Err() != nil {
			t.Fatal("the call never arrives")
		}
		time.Sleep(time.Millisecond)
	}
	if err := f.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	wg.Wait()
	var refusedDial *net.OpError
	if _, err := f.client().DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{}, noRetry); !errors.As(err, &refusedDial) {
		t.Errorf("after Close: %v", err)
	}
}

func TestThrottling(t *testing.T) {
	clock := &testClock{now: time.Now()}
	f := start(t, sim.Options{Throttle: true, ThrottleSpeed: 2, Clock: clock.Now})
	c := f.client()
	until := func(call func() error) int {
		for n := 0; n < 2000; n++ {
			err := call()
			switch code(t, err) {
			case "":
				continue
			case "RequestLimitExceeded":
				if status(err) != 503 {
					t.Errorf("status %d", status(err))
				}
				return n
			default:
				t.Fatal(err)
			}
		}
		return -1
	}
	describe := func(in *awsec2.DescribeSecurityGroupsInput) func() error {
		return func() error { _, err := c.DescribeSecurityGroups(f.ctx, in, noRetry); return err }
	}
	bare := describe(&awsec2.DescribeSecurityGroupsInput{})
	if n := until(bare); n != 50 {
		t.Errorf("%d describes of everything at once, want 50", n)
	}
	if n := until(describe(&awsec2.DescribeSecurityGroupsInput{MaxResults: aws.Int32(5)})); n != 100 {
		t.Errorf("%d describes by page, want 100", n)
	}
	if n := until(func() error {
		_, err := c.CreateSecurityGroup(f.ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String("g"), Description: aws.String("d"),
			VpcId: aws.String(defaultID), DryRun: aws.Bool(true)}, noRetry)
		if err != nil && code(t, err) == "DryRunOperation" {
			return nil
		}
		return err
	}); n != 50 {
		t.Errorf("%d creations, want 50", n)
	}
	if _, err := awsec2.NewFromConfig(f.config(otherKey, secret, "")).DescribeSecurityGroups(f.ctx, nil); err != nil {
		t.Errorf("another account has its own buckets: %v", err)
	}
	clock.mu.Lock()
	clock.now = clock.now.Add(time.Second)
	clock.mu.Unlock()
	if n := until(bare); n != 20 {
		t.Errorf("%d describes after one second at double speed, want 20", n)
	}
	f.Throttle().Set("DescribeSecurityGroups", ec2.Bucket{Size: 3, Refill: 1})
	if n := until(bare); n != 3 {
		t.Errorf("%d describes with a bucket of 3", n)
	}
	f.Journal().Reset()
	if _, err := c.DescribeSecurityGroups(f.ctx, nil); code(t, err) != "RequestLimitExceeded" || len(f.Journal().Calls(0)) != 3 {
		t.Errorf("the client gives up after three attempts: %v, %d calls", err, len(f.Journal().Calls(0)))
	}
}

// TestInstanceTokens: starting machines costs a token per machine beside the one for the call.
func TestInstanceTokens(t *testing.T) {
	clock := &testClock{now: time.Now()}
	f := start(t, sim.Options{Throttle: true, Clock: clock.Now})
	run := func(n int32) string {
		_, err := f.client().RunInstances(f.ctx, &awsec2.RunInstancesInput{
			ImageId: aws.String("ami-12345678"), MinCount: &n, MaxCount: &n, SubnetId: aws.String(subnetID),
		}, noRetry)
		return code(t, err)
	}
	for i, want := range []string{"", "RequestLimitExceeded", ""} {
		if got := run([]int32{998, 3, 2}[i]); got != want {
			t.Errorf("launch %d: %q, want %q", i, got, want)
		}
	}
}

func TestVisibilityDelay(t *testing.T) {
	f := start(t, sim.Options{VisibilityDelay: 5 * time.Second})
	c := f.client()
	id := f.group(t, c, "late")
	describe := &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{id}}
	if _, err := c.DescribeSecurityGroups(f.ctx, describe); code(t, err) != "InvalidGroup.NotFound" {
		t.Errorf("describe at once: %v", err)
	}
	in := &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &id}
	in.IpPermissions = append(in.IpPermissions, tcp(1, 1, "10.0.0.0/8"))
	if _, err := c.AuthorizeSecurityGroupIngress(f.ctx, in); code(t, err) != "InvalidGroup.NotFound" {
		t.Errorf("authorize at once: %v", err)
	}
	if _, err := c.CreateSecurityGroup(f.ctx, newGroup("late")); code(t, err) != "InvalidGroup.Duplicate" {
		t.Errorf("create again at once: %v", err)
	}
	f.Advance(5 * time.Second)
	if _, err := c.AuthorizeSecurityGroupIngress(f.ctx, in); err != nil {
		t.Errorf("after the delay: %v", err)
	}
	if _, err := c.DescribeSecurityGroups(f.ctx, describe); err != nil {
		t.Errorf("describe after the delay: %v", err)
	}
}

// TestOnCall: the hook sees every call before its answer, and can make it fail.
func TestOnCall(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	f := start(t, sim.Options{OnCall: func(_ context.Context, c ec2.Call) error {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, c.Action+":"+c.Code)
		if c.Action == "DescribeSubnets" {
			return errors.New("disk full")
		}
		return nil
	}})
	if _, err := f.client().DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{}); err != nil {
		t.Error(err)
	}
	if _, err := f.client().DescribeSubnets(f.ctx, &awsec2.DescribeSubnetsInput{}, noRetry); code(t, err) != "InternalError" {
		t.Errorf("failing hook: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(seen, " "); got != "DescribeVpcs: DescribeSubnets:" {
		t.Errorf("seen %s", got)
	}
}

// TestConcurrentClients runs many clients at once; the journal must hold every call once.
func TestConcurrentClients(t *testing.T) {
	f := start(t, sim.Options{JournalSize: 10})
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			c := f.client()
			id := f.group(t, c, strings.Repeat("g", n+1))
			for range 5 {
				if _, err := c.DescribeSecurityGroups(f.ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{id}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if counts := f.Journal().Counts(); counts["CreateSecurityGroup"] != 8 || counts["DescribeSecurityGroups"] != 40 {
		t.Errorf("counts %v", counts)
	}
	if calls := f.Journal().Calls(0); len(calls) != 10 || f.Journal().Total() != 48 {
		t.Errorf("the journal holds %d of %d", len(calls), f.Journal().Total())
	}
}
