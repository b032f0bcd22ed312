package history

import (
	"container/heap"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
)

const (
	// burst is how many versions of one object are recorded as they come; then there is one in
	// pause.
	burst = 5
	pause = 30 * time.Second
	// maxVersions is how many versions of one object wait. Of more, those in between are not
	// recorded apart.
	maxVersions = 4
	// maxDeleted is how many objects that are gone wait in one namespace; with more, the deletions
	// of some are not recorded.
	maxDeleted = 2000
)

// version is an object as it was at a time. It must not be modified: it is that of a cache.
type version struct {
	object client.Object
	change v1alpha1.RevisionChange
	seen   time.Time
	// merged are the versions before it that are not recorded.
	merged int64
}

// subject is an object whose history is kept.
type subject struct {
	kind kind
	uid  types.UID
	// last is the fingerprint of the version that was seen last.
	last string
	// gone says that it was deleted.
	gone     bool
	versions []version
	// queued says that it waits for its turn, in a lane or in the heap.
	queued bool
	limit  *rate.Limiter
	// result is what its status said last, if it says something.
	result  result
	decided bool
	// calls are those since the last version came, if that is not recorded yet.
	calls calls
}

// push adds a version that is to be recorded.
func (s *subject) push(v version) {
	if n := len(s.versions); n >= maxVersions {
		v.merged += s.versions[n-1].merged + 1
		s.versions = s.versions[:n-1]
	}
	s.versions = append(s.versions, v)
	s.calls = calls{}
}

// waiting is a subject that is not to be looked at before a time.
type waiting struct {
	until time.Time
	uid   types.UID
}

type waitHeap []waiting

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h waitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *waitHeap) Push(x any)        { *h = append(*h, x.(waiting)) }
func (h *waitHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// queue gives subjects their turn: namespace by namespace, so that no one waits for the noise of
// another. It is not safe for concurrent use.
type queue struct {
	lanes map[string][]types.UID
	order []string
	wait  waitHeap
	// deleted counts the subjects that wait and are gone, by namespace.
	deleted map[string]int
}

func newQueue() *queue { return &queue{lanes: map[string][]types.UID{}, deleted: map[string]int{}} }

// add puts a subject into the lane of its namespace.
func (q *queue) add(namespace string, uid types.UID) {
	if _, there := q.lanes[namespace]; !there {
		q.order = append(q.order, namespace)
	}
	q.lanes[namespace] = append(q.lanes[namespace], uid)
}

// later lets a subject wait.
func (q *queue) later(until time.Time, uid types.UID) { heap.Push(&q.wait, waiting{until, uid}) }

// due returns a subject whose wait is over.
func (q *queue) due(now time.Time) (types.UID, bool) {
	if len(q.wait) == 0 || q.wait[0].until.After(now) {
		return "", false
	}
	return heap.Pop(&q.wait).(waiting).uid, true
}

// next returns the subject whose turn it is.
func (q *queue) next() (types.UID, bool) {
	if len(q.order) == 0 {
		return "", false
	}
	namespace := q.order[0]
	lane := q.lanes[namespace]
	uid := lane[0]
	q.order = append(slices.Delete(q.order, 0, 1), namespace)
	if lane = lane[1:]; len(lane) > 0 {
		q.lanes[namespace] = lane
	} else {
		delete(q.lanes, namespace)
		q.order = q.order[:len(q.order)-1]
	}
	return uid, true
}
