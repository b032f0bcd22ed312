package arm

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// Bucket is the size of a token bucket and how many tokens per second flow back into it.
type Bucket struct {
	Size   float64
	Refill float64
}

// callKind is what a call counts as.
type callKind int

const (
	kindRead callKind = iota
	kindWrite
	kindDelete
	kindGraph
)

func kindOf(method string) callKind {
	switch method {
	case http.MethodGet, http.MethodHead:
		return kindRead
	case http.MethodDelete:
		return kindDelete
	}
	return kindWrite
}

// Names of the buckets, for Set. A bucket of a subscription exists once per principal, a global one
// once; a bucket of Network once per subscription.
const (
	BucketReads         = "reads"
	BucketWrites        = "writes"
	BucketDeletes       = "deletes"
	BucketGlobalReads   = "global-reads"
	BucketGlobalWrites  = "global-writes"
	BucketGlobalDeletes = "global-deletes"
	BucketNetworkReads  = "network-reads"
	BucketNetworkWrites = "network-writes"
	BucketGraph         = "graph"
)

// documented are the buckets as they are published: of Resource Manager per subscription and
// principal, 15 times that per subscription, of the network provider per five minutes, of Resource
// Graph per five seconds.
func documented() map[string]Bucket {
	return map[string]Bucket{
		BucketReads: {250, 25}, BucketWrites: {200, 10}, BucketDeletes: {200, 10},
		BucketGlobalReads: {3750, 375}, BucketGlobalWrites: {3000, 150}, BucketGlobalDeletes: {3000, 150},
		BucketNetworkReads: {10000, 10000.0 / 300}, BucketNetworkWrites: {1000, 1000.0 / 300},
		BucketGraph: {15, 3},
	}
}

// Throttle limits the rate of calls as Azure does. It is safe for concurrent use. A nil *Throttle
// lets everything pass.
type Throttle struct {
	now   func() time.Time
	speed float64

	mu     sync.Mutex
	sizes  map[string]Bucket
	levels map[bucketKey]*level
}

type bucketKey struct{ name, owner string }

type level struct {
	tokens float64
	at     time.Time
}

// NewThrottle returns a throttle with all buckets full. Buckets refill speed times as fast as the
// real ones; a speed of 0 means 1.
func NewThrottle(now func() time.Time, speed float64) *Throttle {
	if speed <= 0 {
		speed = 1
	}
	return &Throttle{now: now, speed: speed, sizes: documented(), levels: map[bucketKey]*level{}}
}

// Set replaces a bucket and fills it.
func (t *Throttle) Set(name string, b Bucket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sizes[name] = b
	for key := range t.levels {
		if key.name == name {
			delete(t.levels, key)
		}
	}
}

// keys are the buckets that a call takes from.
func keys(req *request, kind callKind) []bucketKey {
	subscription := strings.ToLower(req.id.Subscription)
	// Tags of a network resource are written at Microsoft.Resources.
	own, network := subscription+" "+req.by.ObjectID, strings.HasPrefix(strings.ToLower(req.call.Action), "microsoft.network/")
	switch {
	case kind == kindGraph:
		return []bucketKey{{BucketGraph, req.by.ObjectID}}
	case kind == kindRead && network:
		return []bucketKey{{BucketReads, own}, {BucketGlobalReads, subscription}, {BucketNetworkReads, subscription}}
	case kind == kindRead:
		return []bucketKey{{BucketReads, own}, {BucketGlobalReads, subscription}}
	case kind == kindDelete && network:
		return []bucketKey{{BucketDeletes, own}, {BucketGlobalDeletes, subscription}, {BucketNetworkWrites, subscription}}
	case kind == kindDelete:
		return []bucketKey{{BucketDeletes, own}, {BucketGlobalDeletes, subscription}}
	case network:
		return []bucketKey{{BucketWrites, own}, {BucketGlobalWrites, subscription}, {BucketNetworkWrites, subscription}}
	}
	return []bucketKey{{BucketWrites, own}, {BucketGlobalWrites, subscription}}
}

// take lets a call pass, or says when to come again. A refused call takes nothing.
func (t *Throttle) take(req *request, kind callKind) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := keys(req, kind)
	wait := 0.0
	for _, k := range all {
		if l := t.level(k); l.tokens < 1 {
			wait = max(wait, (1-l.tokens)/(t.sizes[k.name].Refill*t.speed))
		}
	}
	if wait > 0 {
		code, message := "TooManyRequests", "The request is being throttled as the limit has been reached for operation type - "+req.call.Action+"."
		if kind == kindGraph {
			code = "RateLimiting"
		}
		e := document.Refuse(http.StatusTooManyRequests, code, "%s", message)
		e.RetryAfter = time.Duration(math.Max(1, math.Ceil(wait))) * time.Second
		return e
	}
	for _, k := range all {
		t.level(k).tokens--
	}
	return nil
}

// level returns a bucket as it is now.
func (t *Throttle) level(key bucketKey) *level {
	now, b := t.now(), t.sizes[key.name]
	l, ok := t.levels[key]
	if !ok {
		l = &level{tokens: b.Size, at: now}
		t.levels[key] = l
		return l
	}
	if passed := now.Sub(l.at).Seconds(); passed > 0 {
		l.tokens = min(b.Size, l.tokens+passed*b.Refill*t.speed)
		l.at = now
	}
	return l
}

// headers tell a client what is left.
func (t *Throttle) headers(req *request, header http.Header) {
	if t == nil || req.call.Service != serviceARM && req.call.Service != serviceGraph {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if req.call.Service == serviceGraph {
		header.Set("x-ms-user-quota-remaining", strconv.Itoa(int(t.level(bucketKey{BucketGraph, req.by.ObjectID}).tokens)))
		header.Set("x-ms-user-quota-resets-after", "00:00:05")
		return
	}
	own := strings.ToLower(req.id.Subscription) + " " + req.by.ObjectID
	name, bucket := "x-ms-ratelimit-remaining-subscription-reads", BucketReads
	switch kindOf(req.Method) {
	case kindWrite:
		name, bucket = "x-ms-ratelimit-remaining-subscription-writes", BucketWrites
	case kindDelete:
		name, bucket = "x-ms-ratelimit-remaining-subscription-deletes", BucketDeletes
	}
	header.Set(name, strconv.Itoa(int(t.level(bucketKey{bucket, own}).tokens)))
}
