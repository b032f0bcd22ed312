package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// queueClient is the official client of SQS.
func queueClient(s *sim.Server, secret string) *awssqs.Client {
	return awssqs.New(awssqs.Options{
		Region: region, BaseEndpoint: aws.String(s.URL()), Retryer: aws.NopRetryer{},
		HTTPClient:  &http.Client{Transport: sim.Transport(&http.Transport{})},
		Credentials: credentials.NewStaticCredentialsProvider(estate.DefaultAccessKeyID, secret, ""),
	})
}

// testTime is a clock that stands still until it is moved.
type testTime struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testTime) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func receive(t *testing.T, c *awssqs.Client, url string, wait int32) []types.Message {
	t.Helper()
	out, err := c.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{
		QueueUrl: aws.String(url), MaxNumberOfMessages: 10, WaitTimeSeconds: wait,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Messages
}

// TestQueueLife walks a message through all that can happen to it, with the official client.
func TestQueueLife(t *testing.T) {
	t.Parallel()
	clock := &testTime{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s := start(t, sim.Options{Clock: clock.Now})
	c := queueClient(s, estate.DefaultSecret)
	made, err := c.CreateQueue(t.Context(), &awssqs.CreateQueueInput{
		QueueName: aws.String("q"), Attributes: map[string]string{"VisibilityTimeout": "40"}})
	if err != nil {
		t.Fatal(err)
	}
	url := aws.ToString(made.QueueUrl)
	if got, err := c.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String("q")}); err != nil || aws.ToString(got.QueueUrl) != url {
		t.Fatalf("%v, %v; want %s", got, err, url)
	}
	if m := receive(t, c, url, 0); len(m) != 0 {
		t.Fatalf("an empty queue holds %v", m)
	}
	for _, body := range []string{"one", "two"} {
		if _, err := c.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: aws.String(url), MessageBody: aws.String(body)}); err != nil {
			t.Fatal(err)
		}
	}
	first := receive(t, c, url, 1)
	if len(first) != 2 || *first[0].Body != "one" {
		t.Fatalf("received %v", first)
	}
	if m := receive(t, c, url, 0); len(m) != 0 {
		t.Fatalf("hidden messages were received: %v", m)
	}
	out, err := c.DeleteMessageBatch(t.Context(), &awssqs.DeleteMessageBatchInput{QueueUrl: aws.String(url),
		Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: aws.String("a"), ReceiptHandle: first[0].ReceiptHandle}, {Id: aws.String("b"), ReceiptHandle: aws.String("nonsense")}}})
	if err != nil || len(out.Successful) != 1 || len(out.Failed) != 1 || *out.Failed[0].Code != "ReceiptHandleIsInvalid" {
		t.Fatalf("%v, %v", out, err)
	}
	s.Advance(41 * time.Second)
	again := receive(t, c, url, 0)
	if len(again) != 1 || *again[0].Body != "two" {
		t.Fatalf("after the visibility timeout: %v", again)
	}
	if _, err := c.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: aws.String(url), ReceiptHandle: first[1].ReceiptHandle}); err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Hour)
	if m := receive(t, c, url, 0); len(m) != 0 {
		t.Fatalf("deleted messages came back: %v", m)
	}

	// A long poll ends with the first message.
	var wg sync.WaitGroup
	wg.Go(func() {
		if m := receive(t, c, url, 20); len(m) != 1 {
			t.Errorf("the long poll returned %v", m)
		}
	})
	if _, err := c.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: aws.String(url), MessageBody: aws.String("three")}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()

	if _, err := c.DeleteQueue(t.Context(), &awssqs.DeleteQueueInput{QueueUrl: aws.String(url)}); err != nil {
		t.Fatal(err)
	}
	_, err = c.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: aws.String(url)})
	var gone *types.QueueDoesNotExist
	if !errors.As(err, &gone) || gone.ErrorCode() != "AWS.SimpleQueueService.NonExistentQueue" {
		t.Errorf("a deleted queue: %v", err)
	}
}

// TestQueueRefusals: wrong keys, wrong accounts and faults appear to the client as in the cloud.
func TestQueueRefusals(t *testing.T) {
	t.Parallel()
	s := start(t, sim.Options{Events: sim.EventOptions{Queue: "events"}})
	url := s.URL() + s.Queues().Refs()[0].Path()
	codeOf := func(c *awssqs.Client, url string) string {
		_, err := c.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: aws.String(url)})
		var api smithy.APIError
		if !errors.As(err, &api) {
			return fmt.Sprint(err)
		}
		return api.ErrorCode()
	}
	good := queueClient(s, estate.DefaultSecret)
	for want, got := range map[string]string{
		"SignatureDoesNotMatch":                   codeOf(queueClient(s, "wrong"), url),
		"AccessDenied":                            codeOf(good, s.URL()+"/999988887777/events"),
		"AWS.SimpleQueueService.NonExistentQueue": codeOf(good, url+"2"),
		"InvalidAddress":                          codeOf(good, "://"),
	} {
		if got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	s.Faults().Add(ec2.Fault{Action: "ReceiveMessage", Code: "RequestThrottled", Message: "slower"})
	if got := codeOf(good, url); got != "RequestThrottled" {
		t.Errorf("fault: %s", got)
	}
	s.Faults().Add(ec2.Fault{Action: "ReceiveMessage", LoseAnswer: true})
	if got := codeOf(good, url); !strings.Contains(got, "EOF") {
		t.Errorf("a lost answer: %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := good.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: aws.String(url), WaitTimeSeconds: 20}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a poll that is given up: %v", err)
	}
}

// eventBody is what of an event is looked at here.
type eventBody struct {
	Kind    string `json:"detail-type"`
	Account string `json:"account"`
	Region  string `json:"region"`
	Detail  struct {
		Name     string         `json:"eventName"`
		Identity map[string]any `json:"userIdentity"`
		Request  map[string]any `json:"requestParameters"`
		Response map[string]any `json:"responseElements"`
		Instance string         `json:"instance-id"`
		State    string         `json:"state"`
	} `json:"detail"`
}

// TestEvents: calls and state changes appear in the queue, late and as often as asked for.
func TestEvents(t *testing.T) {
	t.Parallel()
	clock := &testTime{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s := start(t, sim.Options{Clock: clock.Now, TransitionDelay: time.Minute, Seed: 7,
		Events: sim.EventOptions{Queue: "events", Delay: 10 * time.Second, Copies: 2}})
	ref := s.Queues().Refs()[0]
	url, queue, cloud := s.URL()+ref.Path(), queueClient(s, estate.DefaultSecret), client(s)
	vpc, err := cloud.CreateVpc(t.Context(), &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	subnet, err := cloud.CreateSubnet(t.Context(), &awsec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, CidrBlock: aws.String("10.0.1.0/24")})
	if err != nil {
		t.Fatal(err)
	}
	run, err := cloud.RunInstances(t.Context(), &awsec2.RunInstancesInput{ImageId: aws.String("ami-00000000"),
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: subnet.Subnet.SubnetId})
	if err != nil {
		t.Fatal(err)
	}
	vm := aws.ToString(run.Instances[0].InstanceId)
	if _, err := cloud.CreateTags(t.Context(), &awsec2.CreateTagsInput{Resources: []string{vm},
		Tags: []ec2types.Tag{{Key: aws.String("app"), Value: aws.String("web")}}}); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, queue, url, 0); len(m) != 0 {
		t.Fatalf("events came early: %v", *m[0].Body)
	}
	s.Advance(10 * time.Second)
	var got []string
	collect := func() {
		for {
			batch := receive(t, queue, url, 0)
			if len(batch) == 0 {
				return
			}
			for _, m := range batch {
				var e eventBody
				if err := json.Unmarshal([]byte(*m.Body), &e); err != nil {
					t.Fatalf("%v: %s", err, *m.Body)
				}
				if e.Account != ref.Account || e.Region != region {
					t.Errorf("event of %s/%s", e.Account, e.Region)
				}
				if e.Detail.Name == "CreateTags" {
					text := fmt.Sprint(e.Detail.Identity["arn"], e.Detail.Request)
					if !strings.Contains(text, "user/nephele") || !strings.Contains(text, vm) || !strings.Contains(text, "web") {
						t.Errorf("CreateTags: %s", text)
					}
				}
				if e.Detail.Name == "RunInstances" && !strings.Contains(fmt.Sprint(e.Detail.Response), vm) {
					t.Errorf("RunInstances: %v", e.Detail.Response)
				}
				got = append(got, e.Detail.Name+e.Detail.State)
				if _, err := queue.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: aws.String(url), ReceiptHandle: m.ReceiptHandle}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	collect()
	// The start of the instance ends by itself; its notification comes after the delay from then
	// on.
	s.Advance(50 * time.Second)
	s.World().Settle()
	s.Advance(10 * time.Second)
	collect()
	want := []string{"CreateVpc", "CreateSubnet", "RunInstances", "pending", "CreateTags", "running"}
	if twice := slices.Repeat(want, 2); !sameMembers(got, twice) {
		t.Errorf("events %v; want each of %v twice", got, want)
	}
	var list []map[string]any
	admin(t, s, "GET /_sim/queues", "", &list)
	if len(list) != 1 || list[0]["url"] != url || list[0]["hidden"] != 0.0 {
		t.Errorf("queues %v", list)
	}
	if code := admin(t, s, "DELETE /_sim/queues?name=events", "", nil); code != http.StatusOK || len(s.Queues().Refs()) != 0 {
		t.Errorf("delete: %d, %v", code, s.Queues().Refs())
	}
	// Behind the scenes nobody is named, and a queue of the usual name takes events without being
	// asked for.
	if code := admin(t, s, "POST /_sim/queues?name=events", "", nil); code != http.StatusOK {
		t.Errorf("create: %d", code)
	}
	r, err := s.World().Region(ref.Account, region)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CreateTags([]string{vm}, []simaws.Tag{{Key: "a", Value: "b"}}); err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Minute)
	if m := receive(t, queue, url, 0); len(m) != 2 || !strings.Contains(*m[0].Body, "simulator.amazonaws.com") {
		t.Errorf("%v", m)
	}
}

func sameMembers(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}
