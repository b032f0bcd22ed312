package aws

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/event"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// Queue is an SQS queue with events of the account.
type Queue struct {
	URL string
	// Region of the queue; empty means the one that the URL names, else Config.Region.
	Region string
}

const (
	// longPoll is how long the cloud waits for the first message before it answers, in seconds: the
	// longest that it offers.
	longPoll = 20
	// messagesAtOnce is the most that one answer holds.
	messagesAtOnce = 10
	// The wait after a failed attempt doubles from firstListenWait to lastListenWait.
	firstListenWait = time.Second
	lastListenWait  = time.Minute
	// minListenWait is between two attempts, whatever the first one brought: a queue that never
	// lets us wait must not keep us busy.
	minListenWait = 100 * time.Millisecond
	// ownListenWait is the same after messages about nothing but calls of our own, if there were no
	// more: while a large change runs there are some for each call, one by one. So long at most
	// does news wait behind them.
	ownListenWait = 2 * time.Second
)

var _ cloud.Listener = (*Provider)(nil)

// Listen implements cloud.Listener: one goroutine per queue, all ended when it returns.
func (p *Provider) Listen(ctx context.Context, h cloud.Hearer) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var wg sync.WaitGroup
	faults := make([]error, len(p.cfg.Queues))
	for i, q := range p.cfg.Queues {
		wg.Go(func() {
			l := &listening{p: p, queue: q, hearer: h, api: p.queueClient(q)}
			if faults[i] = recovered.Do(func() { l.run(ctx) }); faults[i] != nil {
				end()
			}
		})
	}
	wg.Wait()
	if fault := errors.Join(faults...); fault != nil {
		panic(fault) // for the caller, who knows what to do then
	}
}

// region is where the queue is.
func (q Queue) region(otherwise string) string {
	if q.Region != "" {
		return q.Region
	}
	if u, err := url.Parse(q.URL); err == nil {
		parts := strings.Split(u.Hostname(), ".")
		switch {
		case len(parts) > 3 && parts[0] == "sqs": // sqs.us-west-2.amazonaws.com
			return parts[1]
		case len(parts) > 3 && parts[1] == "queue": // us-west-2.queue.amazonaws.com
			return parts[0]
		}
	}
	return otherwise
}

// queueClient is not admitted like the other calls: a queue has no rate worth minding, and waiting
// for messages must not hold up others.
func (p *Provider) queueClient(q Queue) *sqs.Client {
	base := p.base.Copy()
	product, _, _ := strings.Cut(p.cfg.UserAgent, "/")
	base.APIOptions = []func(*middleware.Stack) error{awsmiddleware.AddUserAgentKey(product)}
	return sqs.NewFromConfig(base, func(o *sqs.Options) {
		o.Region = q.region(p.cfg.Region)
		o.Retryer = awssdk.NopRetryer{}
	})
}

// listening is one queue being read.
type listening struct {
	p      *Provider
	api    *sqs.Client
	queue  Queue
	hearer cloud.Hearer
	us     event.Identity
	// well is true after an attempt that succeeded. Until then the queue is only looked at, so that
	// its state is known at once.
	well bool
}

// run reads the queue until ctx ends.
func (l *listening) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		pause, err := l.once(ctx)
		l.well = err == nil
		if err == nil && l.p.cfg.Sleep(ctx, pause) != nil {
			return
		}
		if ctx.Err() != nil {
			return
		}
		l.hearer.Listening(l.queue.URL, err)
		if err == nil {
			failures = 0
			continue
		}
		wait := lastListenWait
		if failures < 6 {
			wait = min(firstListenWait<<failures, lastListenWait)
		}
		failures++
		if l.p.cfg.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// once waits for messages, hands over what they say and deletes them: what they hint at is
// remembered then, and if we die before it is looked at, everything is read at the next start. A
// message that we do not understand is deleted as well, for it will never be. It says how long not
// to listen then.
func (l *listening) once(ctx context.Context) (pause time.Duration, err error) {
	pause = minListenWait
	if l.us.Account == "" {
		if l.us, err = l.p.identity(ctx); err != nil {
			return pause, err
		}
	}
	in := &sqs.ReceiveMessageInput{QueueUrl: awssdk.String(l.queue.URL), MaxNumberOfMessages: messagesAtOnce}
	if l.well {
		in.WaitTimeSeconds = longPoll
	}
	out, err := l.api.ReceiveMessage(ctx, in)
	if err != nil {
		return pause, l.failed("ReceiveMessage", err)
	}
	if len(out.Messages) == 0 {
		return pause, nil
	}
	var hints []event.Hint
	changed := false
	for _, m := range out.Messages {
		if h, relevant := event.Read(awssdk.ToString(m.Body), l.us); relevant {
			hints = append(hints, h)
			changed = changed || !h.Mark
		}
	}
	news := l.tell(ctx, hints)
	if changed && !news && len(out.Messages) < messagesAtOnce {
		pause = ownListenWait
	}
	return pause, l.forget(ctx, out.Messages)
}

// tell hands over events that are not about calls of our own. An event can be faster than the
// answer to its call, so an event about a call in our name waits a moment for that answer. It
// reports whether it has handed over anything.
func (l *listening) tell(ctx context.Context, hints []event.Hint) (news bool) {
	var late []event.Hint
	var might []event.Request
	others := slices.DeleteFunc(l.strangers(hints), func(h event.Hint) bool {
		ours := h.Author.Ours && h.Request.ID != ""
		if ours {
			might, late = append(might, h.Request), append(late, h)
		}
		return ours
	})
	news = l.hear(others)
	if len(might) == 0 {
		return news
	}
	l.p.own.Await(ctx, might)
	return l.hear(l.strangers(late)) || news
}

// strangers returns the hints that are not known to be about calls of our own. The others prove
// that events come.
func (l *listening) strangers(hints []event.Hint) (out []event.Hint) {
	proven := map[string]time.Time{}
	for _, h := range hints {
		if at, ours := l.p.own.Answered(h.Request); !ours {
			out = append(out, h)
		} else if at.After(proven[h.Region]) {
			proven[h.Region] = at
		}
	}
	for region, at := range proven {
		l.hearer.Proven(region, at)
	}
	return out
}

func (l *listening) hear(hints []event.Hint) bool {
	var changes []cloud.Change
	for _, h := range hints {
		if !h.Mark {
			changes = append(changes, h.Change)
		}
	}
	if len(changes) > 0 {
		l.hearer.Heard(changes)
	}
	return len(changes) > 0
}

// forget deletes messages. Messages that cannot be deleted come again, which does no harm.
func (l *listening) forget(ctx context.Context, messages []types.Message) error {
	in := &sqs.DeleteMessageBatchInput{QueueUrl: awssdk.String(l.queue.URL)}
	for i, m := range messages {
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: awssdk.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
	}
	_, err := l.api.DeleteMessageBatch(ctx, in)
	return l.failed("DeleteMessageBatch", err)
}

// failed classifies an error, for which queues have codes of their own; nil for nil.
func (l *listening) failed(call string, err error) error {
	err = failure.Classify(call, err, l.p.cfg.Now())
	var e *cloud.Error
	if errors.As(err, &e) && (e.Code == codeNoQueue || e.Code == "QueueDoesNotExist") {
		e.Class = cloud.NotFound
	}
	return err
}

// codeNoQueue is the code of a queue that does not exist, in the region and account of the request.
const codeNoQueue = "AWS.SimpleQueueService.NonExistentQueue"

// identity asks for our own identity.
func (p *Provider) identity(ctx context.Context) (event.Identity, error) {
	out, err := p.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return event.Identity{}, failure.Classify("GetCallerIdentity", err, p.cfg.Now())
	}
	return event.Identity{Account: awssdk.ToString(out.Account), ARN: awssdk.ToString(out.Arn)}, nil
}
