package aws_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/sim"
	simec2 "github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// hand returns a client with the same credentials as ours: of a clone, or of somebody who has
// stolen the keys.
func (l *lab) hand() *ec2.Client {
	return ec2.New(ec2.Options{Region: region, BaseEndpoint: awssdk.String(l.server.URL()),
		Credentials: credentials.NewStaticCredentialsProvider(estate.DefaultAccessKeyID, estate.DefaultSecret, "")})
}

// someInterfaces are the ids of n interfaces.
func (l *lab) someInterfaces(n int) []string {
	l.Helper()
	s, err := l.provider.Observe(l.Context(), l.scope())
	if err != nil {
		l.Fatal(err)
	}
	var ids []string
	for i := range s.Interfaces {
		ids = append(ids, s.Interfaces[i].ID)
	}
	if len(ids) < n {
		l.Fatalf("%d interfaces, want %d", len(ids), n)
	}
	return ids[:n]
}

// TestOwnEvents: the events of our own calls are not reported, events of other callers are, whoever
// he says that he is, in any order, late and more than once.
func TestOwnEvents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			l := newLab(t, sim.Options{Events: sim.EventOptions{Queue: "events", Copies: 1 + int(seed%3), Shuffle: seed%2 == 1}})
			p := l.open(aws.Config{Queues: []aws.Queue{l.queue()}})
			heard := l.listen(p)
			ids, hand := l.someInterfaces(3), l.hand()
			foreign := map[string]int{}
			var us sync.WaitGroup
			// Ours, several at a time, on the same objects as the others'.
			for n := range 4 {
				us.Go(func() {
					for i := range 12 {
						op := cloud.Op{Kind: cloud.OpTag, Target: ids[(n+i)%len(ids)], Tags: map[string]string{fmt.Sprint("ours-", n): fmt.Sprint(i)}}
						if _, err := p.Apply(t.Context(), l.scope(), op); err != nil {
							t.Error(err)
						}
					}
				})
			}
			for range 10 {
				id := ids[random.IntN(len(ids))]
				foreign[id]++
				time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
				_, err := hand.CreateTags(
					t.Context(),
					&ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: awssdk.String("theirs"), Value: awssdk.String(fmt.Sprint(random.Uint64()))}}},
				)
				if err != nil {
					t.Fatal(err)
				}
			}
			us.Wait()
			l.eventually("the queue is empty", l.drained)
			got := map[string]int{}
			for _, c := range heard.take() {
				for _, id := range c.IDs {
					got[id]++
				}
			}
			for id, n := range foreign {
				if want := n * (1 + int(seed%3)); got[id] != want {
					t.Errorf("%s was changed by hand %d times, and that was heard %d times; want %d", id, n, got[id], want)
				}
			}
			for id := range got {
				if foreign[id] == 0 {
					t.Errorf("%s was changed by us only, and that was heard", id)
				}
			}
		})
	}
}

// TestOwnEventsAreCollected: after messages about nothing but our own calls the next ones may take
// a moment to gather, and after news of others they may not.
func TestOwnEventsAreCollected(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{Events: sim.EventOptions{Queue: "events"}})
	p := l.open(aws.Config{Queues: []aws.Queue{l.queue()}})
	heard, id := l.listen(p), l.someInterfaces(1)[0]
	_, err := l.hand().CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: awssdk.String("theirs"), Value: awssdk.String("1")}}})
	if err != nil {
		t.Fatal(err)
	}
	l.eventually("it is heard", func() bool { return l.drained() && len(heard.take()) > 0 })
	if n := l.clock.waits(2 * time.Second); n > 0 {
		t.Errorf("%d waits after news of others", n)
	}
	if _, err := p.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpTag, Target: id, Tags: map[string]string{"ours": "1"}}); err != nil {
		t.Fatal(err)
	}
	l.eventually("it waits after our own", func() bool { return l.clock.waits(2*time.Second) == 1 })
}

// TestOwnEventsProve: a call of ours that comes back proves that events come, as of its answer; so
// does the mark of this instance, of which nothing is heard. What others do proves nothing.
func TestOwnEventsProve(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{Events: sim.EventOptions{Queue: "events"}})
	p := l.open(aws.Config{Queues: []aws.Queue{l.queue()}})
	heard, id := l.listen(p), l.someInterfaces(1)[0]
	byHand := func(key, value string) {
		t.Helper()
		_, err := l.hand().CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{network}, Tags: []types.Tag{{Key: awssdk.String(key), Value: awssdk.String(value)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	byHand(cloud.TagInstance, "another 1 20s")
	byHand("theirs", "1")
	l.eventually("it is heard", func() bool { return l.drained() && len(heard.take()) > 0 })
	if at := heard.provenAt(); !at.IsZero() {
		t.Errorf("what others did has proven events as of %s", at)
	}
	for _, op := range []cloud.Op{
		{Kind: cloud.OpTag, Target: id, Tags: map[string]string{"ours": "1"}},
		{Kind: cloud.OpTag, Target: network, Tags: map[string]string{cloud.TagInstance: "ours 1 20s"}},
	} {
		_ = l.clock.sleep(t.Context(), time.Minute)
		began := l.clock.read()
		if _, err := p.Apply(t.Context(), l.scope(), op); err != nil {
			t.Fatal(err)
		}
		l.eventually("it proves that events come", func() bool { return !heard.provenAt().Before(began) })
		if at := heard.provenAt(); at.After(l.clock.read()) {
			t.Errorf("proven as of %s, which is yet to come", at)
		}
	}
	l.eventually("the queue is empty", l.drained)
	if got := heard.take(); len(got) != 0 {
		t.Errorf("our own changes were heard: %v", got)
	}
}

// TestForgedEvents: a user with the right to write to the queue can make us read, and nothing else:
// with the id of a request of ours he tells us nothing, without it he is heard, and the events of
// others are heard whatever he sends.
func TestForgedEvents(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{Events: sim.EventOptions{Queue: "events"}})
	ref := l.server.Queues().Refs()[0]
	p := l.open(aws.Config{Queues: []aws.Queue{l.queue()}})
	heard := l.listen(p)
	id := l.someInterfaces(1)[0]
	op := cloud.Op{Kind: cloud.OpTag, Target: id, Tags: map[string]string{"ours": "1"}}
	if _, err := p.Apply(t.Context(), l.scope(), op); err != nil {
		t.Fatal(err)
	}
	l.eventually("our own event is read", l.drained)
	if got := heard.take(); len(got) != 0 {
		t.Fatalf("our own change was heard: %v", got)
	}
	calls := l.server.Journal().Calls(0)
	ours := calls[slices.IndexFunc(calls, func(c simec2.Call) bool { return c.Action == "CreateTags" })].RequestID()
	forge := func(call, region, request, arn, object string) {
		t.Helper()
		body := fmt.Sprintf(`{"detail-type":"AWS API Call via CloudTrail","account":%q,"region":%q,"detail":{"eventSource":"ec2.amazonaws.com",
			"eventName":%q,"requestID":%q,"userIdentity":{"arn":%q},"requestParameters":{"resourcesSet":{"items":[{"resourceId":%q}]}}}}`,
			l.account, region, call, request, arn, object)
		if _, err := l.server.Queues().Send(ref, body, 0); err != nil {
			t.Fatal(err)
		}
	}
	arn := "arn:aws:iam::" + l.account + ":user/nephele"
	for name, c := range map[string]struct {
		call, region, request, arn string
		heard                      bool
	}{
		"a copy of ours":             {"CreateTags", region, ours, arn, false},
		"in our name":                {"CreateTags", region, "00000000-0000-4000-8000-00000000ffff", arn, true},
		"in our name without an id":  {"CreateTags", region, "", arn, true},
		"our id, another call":       {"DeleteTags", region, ours, arn, true},
		"our id, another region":     {"CreateTags", "eu-west-3", ours, arn, true},
		"a very long id":             {"CreateTags", region, strings.Repeat("0", 1<<16), arn, true},
		"another's name, another id": {"CreateTags", region, "x", "arn:aws:iam::1:user/eve", true},
	} {
		forge(c.call, c.region, c.request, c.arn, id)
		l.eventually(name+": the queue is empty", l.drained)
		if got := heard.take(); len(got) > 0 != c.heard {
			t.Errorf("%s: heard %v; want that to be %v", name, got, c.heard)
		}
	}
	// The truth comes behind a crowd of copies.
	for range 30 {
		forge("CreateTags", region, ours, arn, id)
	}
	_, err := l.hand().CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: awssdk.String("theirs"), Value: awssdk.String("1")}}})
	if err != nil {
		t.Fatal(err)
	}
	l.eventually("the change by hand is heard", func() bool { return len(heard.take()) > 0 })
}

// TestLostAnswerIsRead: of a call whose answer was lost nobody knows what it did, so its event is
// heard.
func TestLostAnswerIsRead(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{Events: sim.EventOptions{Queue: "events"}})
	p := l.open(aws.Config{Queues: []aws.Queue{l.queue()}, MaxAttempts: 1})
	heard := l.listen(p)
	id := l.someInterfaces(1)[0]
	l.server.Faults().Add(simec2.Fault{Action: "CreateTags", LoseAnswer: true, Times: 1})
	op := cloud.Op{Kind: cloud.OpTag, Target: id, Tags: map[string]string{"ours": "1"}}
	if _, err := p.Apply(context.WithoutCancel(t.Context()), l.scope(), op); err == nil {
		t.Fatal("the answer was to be lost")
	}
	l.eventually("the change is heard of", func() bool { return len(heard.take()) > 0 })
}

// late is a network that holds answers back until it is told to go on.
type late struct {
	hold atomic.Bool
	on   chan struct{}
}

func (c *late) Do(r *http.Request) (*http.Response, error) {
	out, err := http.DefaultClient.Do(r)
	if c.hold.Load() && r.Header.Get("X-Amz-Target") == "" { // queues have one
		<-c.on
	}
	return out, err
}

// TestEventBeforeItsAnswer: an event of ours that is faster than the answer is not heard, and one
// that somebody else sends in our name meanwhile is heard all the same.
func TestEventBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{Events: sim.EventOptions{Queue: "events"}})
	network := &late{on: make(chan struct{})}
	p := l.open(aws.Config{Queues: []aws.Queue{l.queue()}, Client: network})
	if _, err := p.OwnerID(t.Context()); err != nil {
		t.Fatal(err)
	}
	heard := l.listen(p)
	ids := l.someInterfaces(2)
	if _, err := l.hand().
		CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: ids[:1], Tags: []types.Tag{{Key: awssdk.String("theirs"), Value: awssdk.String("0")}}}); err != nil {
		t.Fatal(err)
	}
	l.eventually("the queue is read", func() bool { return len(heard.take()) > 0 })
	l.eventually("the queue is empty", l.drained)
	network.hold.Store(true)
	var call sync.WaitGroup
	call.Go(func() {
		op := cloud.Op{Kind: cloud.OpTag, Target: ids[0], Tags: map[string]string{"ours": "1"}}
		if _, err := p.Apply(t.Context(), l.scope(), op); err != nil {
			t.Error(err)
		}
	})
	l.eventually("our event is received", func() bool {
		_, hidden, err := l.server.Queues().Depth(l.server.Queues().Refs()[0])
		return err == nil && hidden > 0
	})
	if _, err := l.hand().
		CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: ids[1:], Tags: []types.Tag{{Key: awssdk.String("theirs"), Value: awssdk.String("1")}}}); err != nil {
		t.Fatal(err)
	}
	network.hold.Store(false)
	close(network.on)
	call.Wait()
	var got []string
	l.eventually("the queue is empty", func() bool {
		for _, c := range heard.take() {
			got = append(got, c.IDs...)
		}
		return len(got) > 0 && l.drained()
	})
	if !slices.Equal(got, ids[1:]) {
		t.Errorf("heard of %v; want only %v, which somebody else has changed", got, ids[1:])
	}
}
