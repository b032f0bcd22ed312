package bounds

import (
	"context"
	"io"
	"net/http"

	"github.com/nephele-io/nephele/internal/cloud"
)

// The flags of the controller that set the bounds, for messages.
const (
	flagAnswerBytes = "--max-answer-bytes"
	FlagPages       = "--max-pages"
	FlagObjects     = "--max-objects"
)

// The bounds of answers that are never large.
const (
	// errorBytes bounds an answer that is an error.
	errorBytes = 256 << 10
	// queueBytes bounds an answer of SQS: the messages of one hold a megabyte at most.
	queueBytes = 8 << 20
)

const (
	// largeAnswer is where an answer begins to be large.
	largeAnswer = 256 << 10
	// largeAtOnce bounds the large answers of one account that are read at the same time. Regions
	// are read beside one another, and an account may have a hundred of them.
	largeAtOnce = 2
)

// The calls of S3, which need no client of that service.
const (
	CallListObjects = "ListObjectsV2"
	CallGetObject   = "GetObject"
)

// Answers bounds the answers to the calls of one account.
type Answers struct {
	bytes int64
	large chan struct{}
}

// NewAnswers returns the bounds of one account, with the bytes of one answer.
func NewAnswers(bytes int64) *Answers {
	return &Answers{bytes: bytes, large: make(chan struct{}, largeAtOnce)}
}

// itemCosts are what the items of lists in an answer take in memory when they are decoded, by the
// number of items that they are in: twice the size of the largest type that there can be, for a
// list is copied while it grows.
func itemCosts(call string) []int64 {
	switch call {
	case "DescribeInstances": // reservations, instances, their interfaces, tags and the like, what these have
		return []int64{160, 1424, 512, 96}
	case "DescribeNetworkInterfaces": // interfaces, their addresses, tags and the like
		return []int64{784, 96}
	case "DescribeSecurityGroups": // groups, permissions, peers
		return []int64{256, 256, 128}
	}
	return []int64{352, 192}
}

// ofElements reports whether the lists in the answer to a call have items of any name.
func ofElements(call string) bool {
	switch call {
	case "DescribeDBClusters", "DescribeDBInstances", "DescribeCacheClusters", "DescribeLoadBalancers", "DescribeListeners", "DescribeTags", CallListObjects:
		return true
	}
	return false
}

// Bound returns the body of an answer with an end. What it holds is counted as it is when it is
// unpacked and decoded: bytes, and for what takes more memory than bytes (items of lists, elements
// that are not closed) that much. The reading fails at the bound.
func (a *Answers) Bound(ctx context.Context, resp *http.Response, call string) io.ReadCloser {
	b := &answer{body: resp.Body, ctx: ctx, large: a.large, left: a.bytes,
		over: &cloud.BoundError{What: "the answer takes", Bound: a.bytes, Unit: "bytes", Flag: flagAnswerBytes}}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		b.most(errorBytes)
	case call == CallGetObject:
		b.left, b.over = cloud.MostObjectBytes, &cloud.BoundError{What: "the object takes", Bound: cloud.MostObjectBytes, Unit: "bytes"}
	case call == "ReceiveMessage" || call == "DeleteMessageBatch":
		b.most(queueBytes)
		b.scan = jsonScan{}
	case call == "DescribeFileSystems" || call == "ListFunctions":
		b.scan = jsonScan{}
	case ofElements(call):
		b.scan = &elementScan{}
	default:
		b.scan = newXMLScan(itemCosts(call))
	}
	return b
}

// scan looks at an answer as it is read.
type scan interface {
	// feed returns what the next bytes will cost beyond themselves, which may be negative if
	// earlier ones cost less than was said; false if no answer looks like that.
	feed(p []byte) (cost int64, ok bool)
}

// answer is a body that is being read. It is read by one goroutine.
type answer struct {
	body io.ReadCloser
	scan scan
	// left is what may still come.
	left int64
	over *cloud.BoundError

	ctx   context.Context // of the call
	large chan struct{}
	used  int64
	holds bool // a place among the large ones
}

// most lowers the bound to one that is fixed.
func (a *answer) most(bytes int64) {
	if bytes < a.left {
		a.left, a.over = bytes, &cloud.BoundError{What: "the answer takes", Bound: bytes, Unit: "bytes"}
	}
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if a.left < 0 {
		return 0, a.over
	}
	n, err := a.body.Read(p[:min(len(p), largeAnswer)])
	cost, ok := int64(0), true
	if a.scan != nil {
		cost, ok = a.scan.feed(p[:n])
	}
	a.left -= int64(n) + cost
	a.used += int64(n) + cost
	if !ok {
		a.left = -1
	}
	if a.left < 0 {
		return 0, a.over
	}
	if a.used > largeAnswer && !a.holds {
		select {
		case a.large <- struct{}{}:
			a.holds = true
		case <-a.ctx.Done():
			return 0, a.ctx.Err()
		}
	}
	return n, err
}

// Close implements io.Closer.
func (a *answer) Close() error {
	if a.holds {
		a.holds = false
		<-a.large
	}
	return a.body.Close()
}
