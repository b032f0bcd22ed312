package ec2

import (
	"encoding/json"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
	"github.com/nephele-io/nephele/internal/sim/sqs"
)

// sqsActions names every SQS action that the simulator knows.
func (h *Handler) sqsActions() map[string]action {
	return map[string]action{
		"CreateQueue":                  onQueues(h, createQueue),
		"GetQueueUrl":                  onQueues(h, getQueueURL),
		"DeleteQueue":                  onQueues(h, deleteQueue),
		"ListQueues":                   onQueues(h, listQueues),
		"GetQueueAttributes":           onQueues(h, getQueueAttributes),
		"SendMessage":                  onQueues(h, sendMessage),
		"ReceiveMessage":               onQueues(h, receiveMessage),
		"DeleteMessage":                onQueues(h, deleteMessage),
		"DeleteMessageBatch":           onQueues(h, deleteMessageBatch),
		"ChangeMessageVisibility":      onQueues(h, changeVisibility),
		"ChangeMessageVisibilityBatch": onQueues(h, changeVisibilityBatch),
	}
}

// onQueues makes an action of a function that reads its parameters from the body as In.
func onQueues[In any](h *Handler, f func(*request, *sqs.Queues, In) (any, error)) action {
	return func(r *request) (_ []wire.Element, err error) {
		var in In
		if json.Unmarshal(r.body, &in) != nil {
			return nil, codec.Fail("SerializationException", "the parameters are not of the types that %s takes", r.call.Action)
		}
		r.answer, err = f(r, h.cfg.Queues, in)
		return nil, err
	}
}

// atQueue is the parameter that all actions on one queue have.
type atQueue struct {
	QueueURL string `json:"QueueUrl"`
}

// ref finds the queue that a URL names, in the account of the URL and the region of the request. A
// queue of another account is refused as if it were not there.
func (a atQueue) ref(r *request) (sqs.Ref, error) {
	u, err := url.Parse(a.QueueURL)
	if a.QueueURL == "" || err != nil {
		return sqs.Ref{}, codec.Fail("InvalidAddress", "The address %s is not valid for this endpoint.", a.QueueURL)
	}
	account, name := path.Split(strings.Trim(u.Path, "/"))
	account = strings.Trim(account, "/")
	if account == "" {
		account = r.call.Account
	}
	if account != r.call.Account {
		return sqs.Ref{}, codec.Fail("AccessDenied", "Access to the resource %s is denied.", a.QueueURL)
	}
	return sqs.Ref{Account: account, Region: r.call.Region, Name: name}, nil
}

func (r *request) queueURL(ref sqs.Ref) map[string]string {
	return map[string]string{"QueueUrl": r.endpoint + ref.Path()}
}

type named struct {
	QueueName  string
	Attributes map[string]string
}

func createQueue(r *request, q *sqs.Queues, in named) (any, error) {
	ref := sqs.Ref{Account: r.call.Account, Region: r.call.Region, Name: in.QueueName}
	return r.queueURL(ref), q.Create(ref, in.Attributes)
}

func getQueueURL(r *request, q *sqs.Queues, in named) (any, error) {
	ref := sqs.Ref{Account: r.call.Account, Region: r.call.Region, Name: in.QueueName}
	_, _, err := q.Depth(ref)
	return r.queueURL(ref), err
}

func deleteQueue(r *request, q *sqs.Queues, in atQueue) (any, error) {
	ref, err := in.ref(r)
	if err != nil {
		return nil, err
	}
	return nil, q.Delete(ref)
}

func listQueues(r *request, q *sqs.Queues, _ struct{}) (any, error) {
	urls := []string{}
	for _, ref := range q.Refs() {
		if ref.Account == r.call.Account && ref.Region == r.call.Region {
			urls = append(urls, r.endpoint+ref.Path())
		}
	}
	return map[string]any{"QueueUrls": urls}, nil
}

func getQueueAttributes(r *request, q *sqs.Queues, in atQueue) (any, error) {
	ref, err := in.ref(r)
	if err != nil {
		return nil, err
	}
	visible, hidden, err := q.Depth(ref)
	return map[string]any{"Attributes": map[string]string{
		"QueueArn": ref.ARN(), "ApproximateNumberOfMessages": strconv.Itoa(visible),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(hidden),
	}}, err
}

type sending struct {
	atQueue
	MessageBody  string
	DelaySeconds int
}

func sendMessage(r *request, q *sqs.Queues, in sending) (any, error) {
	ref, err := in.ref(r)
	if err != nil {
		return nil, err
	}
	if in.DelaySeconds < 0 || in.DelaySeconds > 900 {
		return nil, codec.Fail("InvalidParameterValue", "Value %d for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.", in.DelaySeconds)
	}
	id, err := q.Send(ref, in.MessageBody, time.Duration(in.DelaySeconds)*time.Second)
	return map[string]string{"MessageId": id, "MD5OfMessageBody": sqs.Digest(in.MessageBody)}, err
}

type receiving struct {
	atQueue
	MaxNumberOfMessages int
	WaitTimeSeconds     int
	VisibilityTimeout   *int
}

// received is a message in the JSON protocol.
type received struct {
	MessageID     string            `json:"MessageId"`
	ReceiptHandle string            `json:"ReceiptHandle"`
	MD5OfBody     string            `json:"MD5OfBody"`
	Body          string            `json:"Body"`
	Attributes    map[string]string `json:"Attributes"`
}

func receiveMessage(r *request, q *sqs.Queues, in receiving) (any, error) {
	ref, err := in.ref(r)
	if err != nil {
		return nil, err
	}
	how := sqs.ReceiveInput{Max: in.MaxNumberOfMessages, Wait: time.Duration(in.WaitTimeSeconds) * time.Second, Before: r.world.Settle}
	if in.VisibilityTimeout != nil {
		d := time.Duration(*in.VisibilityTimeout) * time.Second
		how.Visibility = &d
	}
	messages, err := q.Receive(r.ctx, ref, how)
	if err != nil {
		return nil, err
	}
	out := []received{}
	for _, m := range messages {
		out = append(out, received{m.ID, m.Handle, sqs.Digest(m.Body), m.Body, map[string]string{
			"ApproximateReceiveCount": strconv.Itoa(m.Received), "SentTimestamp": strconv.FormatInt(m.Sent.UnixMilli(), 10),
			"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.First.UnixMilli(), 10),
		}})
	}
	if len(out) == 0 {
		return struct{}{}, nil
	}
	return map[string]any{"Messages": out}, nil
}

// delivery is an entry of a batch, or the parameters of a call about one message.
type delivery struct {
	ID                string `json:"Id"`
	ReceiptHandle     string
	VisibilityTimeout int
}

type oneMessage struct {
	atQueue
	delivery
}

type batch struct {
	atQueue
	Entries []delivery
}

func deleteMessage(r *request, q *sqs.Queues, in oneMessage) (any, error) {
	ref, err := in.ref(r)
	if err != nil {
		return nil, err
	}
	return nil, q.DeleteMessage(ref, in.ReceiptHandle)
}

func changeVisibility(r *request, q *sqs.Queues, in oneMessage) (any, error) {
	ref, err := in.ref(r)
	if err != nil {
		return nil, err
	}
	return nil, q.ChangeVisibility(ref, in.ReceiptHandle, time.Duration(in.VisibilityTimeout)*time.Second)
}

func deleteMessageBatch(r *request, q *sqs.Queues, in batch) (any, error) {
	return in.each(r, q, func(ref sqs.Ref, d delivery) error { return q.DeleteMessage(ref, d.ReceiptHandle) })
}

func changeVisibilityBatch(r *request, q *sqs.Queues, in batch) (any, error) {
	return in.each(r, q, func(ref sqs.Ref, d delivery) error {
		return q.ChangeVisibility(ref, d.ReceiptHandle, time.Duration(d.VisibilityTimeout)*time.Second)
	})
}

// each does every entry of a batch and answers which succeeded.
func (b batch) each(r *request, q *sqs.Queues, do func(sqs.Ref, delivery) error) (any, error) {
	ref, err := b.ref(r)
	if err != nil {
		return nil, err
	}
	if !q.Exists(ref) {
		_, _, err := q.Depth(ref)
		return nil, err
	}
	switch n := len(b.Entries); {
	case n == 0:
		return nil, codec.Fail("AWS.SimpleQueueService.EmptyBatchRequest", "There should be at least one entry in the request.")
	case n > sqs.MaxMessages:
		return nil, codec.Fail("AWS.SimpleQueueService.TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10. You have sent %d.", n)
	}
	done, failed := []map[string]string{}, []map[string]any{}
	for _, d := range b.Entries {
		if err := do(ref, d); err != nil {
			e := asAPIError(err)
			failed = append(failed, map[string]any{"Id": d.ID, "Code": e.Code, "Message": e.Message, "SenderFault": true})
			continue
		}
		done = append(done, map[string]string{"Id": d.ID})
	}
	return map[string]any{"Successful": done, "Failed": failed}, nil
}
