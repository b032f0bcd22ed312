package ec2

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bucket is the size of a token bucket and how many tokens per second flow back into it.
type Bucket struct {
	Size   float64
	Refill float64
}

// Throttle limits the rate of calls as EC2 does: one token bucket per account, region and action,
// and for some actions one more that is paid per instance touched. It is safe for concurrent use. A
// nil *Throttle lets everything pass.
type Throttle struct {
	now   func() time.Time
	speed float64

	mu      sync.Mutex
	buckets map[bucketKey]*rate.Limiter
	custom  map[string]Bucket
}

type bucketKey struct {
	account, region, service, name string
}

// NewThrottle returns a throttle with all buckets full. Buckets refill speed times as fast as the
// real ones; a speed of 0 means 1.
func NewThrottle(now func() time.Time, speed float64) *Throttle {
	if speed <= 0 {
		speed = 1
	}
	return &Throttle{now: now, speed: speed, buckets: map[bucketKey]*rate.Limiter{}, custom: map[string]Bucket{}}
}

// Set replaces the bucket of one action, in every account and region, and fills it. The action then
// has this one bucket for all its calls.
func (t *Throttle) Set(action string, b Bucket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.custom[action] = b
	for key := range t.buckets {
		if key.name == action {
			delete(t.buckets, key)
		}
	}
}

// demand is what one call takes.
type demand struct {
	account, region, service, action string
	// bare marks a describe call with neither ids, filters nor paging.
	bare bool
	// instances is the number of instances that the call starts, stops or terminates.
	instances int
}

// take reports whether the call may go on. A refused call takes nothing.
func (t *Throttle) take(d demand) bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	name, size := d.action, t.bucketOf(d)
	if _, replaced := t.custom[d.action]; !replaced && d.bare && hasBareBucket(d.action) {
		name += "/unfiltered"
	}
	calls := t.level(bucketKey{d.account, d.region, d.service, name}, size)
	resources := (*rate.Limiter)(nil)
	if b, ok := resourceBucket(d.action); ok && d.instances > 0 {
		resources = t.level(bucketKey{d.account, d.region, d.service, d.action + "/resources"}, b)
	}
	now := t.now()
	if calls.TokensAt(now) < 1 || resources != nil && !resources.AllowN(now, d.instances) {
		return false
	}
	return calls.AllowN(now, 1)
}

// level returns the bucket, a full one at first.
func (t *Throttle) level(key bucketKey, b Bucket) *rate.Limiter {
	l, ok := t.buckets[key]
	if !ok {
		l = rate.NewLimiter(rate.Limit(b.Refill*t.speed), int(b.Size))
		t.buckets[key] = l
	}
	return l
}

func (t *Throttle) bucketOf(d demand) Bucket {
	if b, ok := t.custom[d.action]; ok {
		return b
	}
	if b, ok := ownBucket(d.action); ok {
		return b
	}
	switch {
	case d.bare && hasBareBucket(d.action):
		return Bucket{Size: 50, Refill: 10}
	case isRead(d.action):
		return Bucket{Size: 100, Refill: 20}
	}
	return Bucket{Size: 50, Refill: 5}
}

func isRead(action string) bool {
	return strings.HasPrefix(action, "Describe") || strings.HasPrefix(action, "Get") || strings.HasPrefix(action, "List")
}

// hasBareBucket reports whether the action has a second, smaller bucket for calls that read
// everything at once.
func hasBareBucket(action string) bool {
	switch action {
	case "DescribeInstances", "DescribeInstanceStatus", "DescribeNetworkInterfaces", "DescribeSecurityGroups":
		return true
	}
	return false
}

// ownBucket returns the bucket of an action that does not follow its category.
func ownBucket(action string) (Bucket, bool) {
	switch action {
	case "ModifyNetworkInterfaceAttribute", "CreateNetworkInterface", "DeleteNetworkInterface", "TerminateInstances":
		return Bucket{Size: 100, Refill: 5}, true
	case "CreateTags", "DeleteTags":
		return Bucket{Size: 100, Refill: 10}, true
	case "RunInstances", "StartInstances":
		return Bucket{Size: 5, Refill: 2}, true
	}
	return Bucket{}, false
}

// resourceBucket returns the bucket that is paid per instance touched.
func resourceBucket(action string) (Bucket, bool) {
	switch action {
	case "RunInstances", "StartInstances":
		return Bucket{Size: 1000, Refill: 2}, true
	case "StopInstances", "TerminateInstances":
		return Bucket{Size: 1000, Refill: 20}, true
	}
	return Bucket{}, false
}
