package history

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
)

// overhead is about what a revision takes beside its content.
const overhead = 1 << 10

// Bounds are how much history is kept.
type Bounds struct {
	// PerObject is how many revisions of one object are kept, and Total how many of all.
	PerObject, Total int
	// Bytes bounds what all of them take.
	Bytes int64
}

// DefaultBounds are those that no one has changed.
func DefaultBounds() Bounds { return Bounds{PerObject: 20, Total: 20000, Bytes: 64 << 20} }

// name is what numbers are counted by: objects that had the same name follow one another.
type name struct{ group, kind, namespace, name string }

func nameOf(o v1alpha1.RevisedObject) name { return name{o.Group, o.Kind, o.Namespace, o.Name} }

// entry is one revision that there is.
type entry struct {
	key    client.ObjectKey
	number int64
	time   time.Time
	size   int64
}

// line are the revisions of one object.
type line struct {
	object  v1alpha1.RevisedObject
	entries []entry // by number
	// hash is that of the last one, and gone says that it reports the deletion.
	hash string
	gone bool
	// reported is what stands in the status of the last one.
	reported result
	calls    calls
	// generation and author come from the last one.
	generation int64
	author     string
}

// index are the revisions that there are. It is not safe for concurrent use.
type index struct {
	lines   map[types.UID]*line
	numbers map[name]int64
	// count and bytes are sums, by namespace and of all.
	count map[string]int
	bytes map[string]int64
	all   int
	size  int64
}

func newIndex() *index {
	return &index{lines: map[types.UID]*line{}, numbers: map[name]int64{}, count: map[string]int{}, bytes: map[string]int64{}}
}

// sizeOf is about what a revision takes.
func sizeOf(s *v1alpha1.RevisionSpec) int64 {
	return int64(len(s.Content)) + int64(len(s.Compressed)) + overhead
}

// add takes in a revision.
func (x *index) add(key client.ObjectKey, s *v1alpha1.RevisionSpec, status *v1alpha1.RevisionStatus) *line {
	l := x.lines[s.Object.UID]
	if l == nil {
		l = &line{object: s.Object}
		x.lines[s.Object.UID] = l
	}
	e := entry{key: key, number: s.Number, time: s.Time.Time, size: sizeOf(s)}
	at, _ := slices.BinarySearchFunc(l.entries, e, func(a, b entry) int { return cmp.Compare(a.number, b.number) })
	l.entries = slices.Insert(l.entries, at, e)
	if at == len(l.entries)-1 {
		l.hash, l.gone, l.generation = s.Hash, s.Change == v1alpha1.RevisionDeleted, s.Generation
		l.author = s.Author.User
		l.reported = result{status.Phase, status.VMs, status.Message}
		l.calls = callsFrom(status.Accounts)
	}
	n := nameOf(s.Object)
	x.numbers[n] = max(x.numbers[n], s.Number)
	x.sum(s.Object.Namespace, 1, e.size)
	return l
}

func (x *index) sum(namespace string, n int, size int64) {
	x.count[namespace] += n
	x.bytes[namespace] += size
	x.all += n
	x.size += size
	if x.count[namespace] == 0 {
		delete(x.count, namespace)
		delete(x.bytes, namespace)
	}
}

// drop forgets the entry of a line.
func (x *index) drop(l *line, at int) entry {
	e := l.entries[at]
	l.entries = slices.Delete(l.entries, at, at+1)
	x.sum(l.object.Namespace, -1, -e.size)
	if len(l.entries) == 0 && l.gone {
		delete(x.lines, l.object.UID)
	}
	return e
}

// excess takes the revisions out of the index that are too many.
func (x *index) excess(b Bounds, changed *line) []entry {
	var out []entry
	for len(changed.entries) > b.PerObject {
		out = append(out, x.drop(changed, 0))
	}
	for x.all > b.Total || x.size > b.Bytes {
		l, at := x.oldest(x.largest(b))
		if l == nil {
			return out
		}
		out = append(out, x.drop(l, at))
	}
	return out
}

// largest is the namespace that has the most of what there is too much of; empty represents objects
// without one.
func (x *index) largest(b Bounds) string {
	best, most := "", int64(-1)
	for ns, n := range x.count {
		size := int64(n)
		if x.all <= b.Total {
			size = x.bytes[ns]
		}
		if size > most || size == most && ns < best {
			best, most = ns, size
		}
	}
	return best
}

// oldest is the revision of a namespace that is missed least: the oldest that is not the last of an
// object that there is; without such, the oldest.
func (x *index) oldest(namespace string) (*line, int) {
	var best *line
	least := func(l *line) int {
		if len(l.entries) == 1 && !l.gone {
			return 1
		}
		return 0
	}
	for _, l := range x.lines {
		if l.object.Namespace != namespace || len(l.entries) == 0 {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(least(l), least(best)), l.entries[0].time.Compare(best.entries[0].time),
			cmp.Compare(l.object.UID, best.object.UID)) < 0 {
			best = l
		}
	}
	return best, 0
}
