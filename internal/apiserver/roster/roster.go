package roster

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/table"
)

// ErrNotReady is the error before all Pods are known, ErrExpired that of a position from which
// no watch can go on.
var (
	ErrNotReady = errors.New("not all Pods are known yet")
	ErrExpired  = errors.New("the Pods of the Node have moved on from this position")
)

// maxTombstones is how many Pods that are gone are remembered of a Node. A watch that missed more
// of them lists anew.
const maxTombstones = 64

// Index holds the Pods of all Nodes. Use New.
type Index struct {
	// source says up to which version Pods are known, and false before all are.
	source func() (asOf string, complete bool)

	mu    sync.Mutex
	nodes map[string]*node
	// passed is a revision that no Node which has been forgotten had reached. A Node that is
	// anew begins there.
	passed uint64
}

// node is a Node that has Pods, or a watch.
type node struct {
	pods table.Table[entry]
	// first and last are the ends of a chain of its Pods, and of those in tombstones, by revision.
	first, last *entry
	tombstones  []*entry
	// revision counts changes. From floor on it is known what has gone.
	revision, floor uint64
	watches         int
	// changed is closed, and renewed, with each change.
	changed chan struct{}
}

// entry is a Pod of a Node, or one that was.
type entry struct {
	pod *convert.TrimmedPod
	// revision is that of the last change, born the one with which the Pod came.
	revision, born uint64
	gone           bool
	before, after  *entry
}

// New returns an Index in which nothing is known. It begins later than now, so that no position of
// an earlier Index is one of this.
func New(now time.Time) *Index {
	return &Index{source: func() (string, bool) { return "", false }, nodes: map[string]*node{}, passed: uint64(max(now.UnixMicro(), 1))}
}

// Put takes in a Pod as it is now; before is the same as it was, nil if there was none.
func (b *Index) Put(before, now *convert.TrimmedPod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if before != nil && before.Node != now.Node {
		b.remove(before)
	}
	if now.OnNode() == nil {
		b.remove(now)
		return
	}
	n := b.node(now.Node)
	hash := n.pods.Hash(key(now))
	e := n.pods.Find(hash, named(now))
	switch {
	case e == nil:
		e = &entry{born: n.revision + 1}
		n.pods.Insert(hash, e)
	case e.pod.SameOnNode(now):
		e.pod = now
		return
	default:
		n.unlink(e)
	}
	e.pod = now
	n.push(e)
}

// Remove takes out a Pod.
func (b *Index) Remove(p *convert.TrimmedPod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(p)
}

func (b *Index) remove(p *convert.TrimmedPod) {
	n := b.nodes[p.Node]
	if n == nil {
		return
	}
	hash := n.pods.Hash(key(p))
	e := n.pods.Find(hash, named(p))
	if e == nil {
		return
	}
	n.pods.Remove(hash, e)
	n.unlink(e)
	e.pod, e.gone = &convert.TrimmedPod{Namespace: p.Namespace, Name: p.Name, UID: e.pod.UID, Created: e.pod.Created, Node: p.Node, ResourceVersion: p.ResourceVersion}, true
	n.push(e)
	if n.tombstones = append(n.tombstones, e); len(n.tombstones) > maxTombstones {
		n.floor = n.tombstones[0].revision
		n.unlink(n.tombstones[0])
		n.tombstones = slices.Delete(n.tombstones, 0, 1)
	}
	b.drop(p.Node, n)
}

func key(p *convert.TrimmedPod) string { return p.Namespace + "/" + p.Name }

func named(p *convert.TrimmedPod) func(*entry) bool {
	return func(e *entry) bool { return e.pod.Namespace == p.Namespace && e.pod.Name == p.Name }
}

// node returns the Node of that name, which may be anew.
func (b *Index) node(name string) *node {
	n := b.nodes[name]
	if n == nil {
		n = &node{revision: b.passed, floor: b.passed, changed: make(chan struct{})}
		b.nodes[name] = n
	}
	return n
}

// drop forgets a Node that has neither Pods nor watches.
func (b *Index) drop(name string, n *node) {
	if n.pods.Len() == 0 && n.watches == 0 {
		b.passed = max(b.passed, n.revision)
		delete(b.nodes, name)
	}
}

// push makes an entry the last change.
func (n *node) push(e *entry) {
	n.revision++
	e.revision, e.before = n.revision, n.last
	if n.last == nil {
		n.first = e
	} else {
		n.last.after = e
	}
	n.last = e
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *node) unlink(e *entry) {
	if e.before == nil {
		n.first = e.after
	} else {
		e.before.after = e.after
	}
	if e.after == nil {
		n.last = e.before
	} else {
		e.after.before = e.before
	}
	e.before, e.after = nil, nil
}

// List returns the Pods of a Node, in the order of their last changes.
func (b *Index) List(name string) (*analysis.LocalPodList, error) {
	asOf, complete := b.source() // before what is listed: it is no older
	if !complete {
		return nil, ErrNotReady
	}
	found, position := b.all(name)
	out := &analysis.LocalPodList{AsOf: asOf, Items: make([]analysis.LocalPod, 0, len(found))}
	out.ResourceVersion = formatPosition(position)
	for _, c := range found {
		out.Items = append(out.Items, *c.object())
	}
	return out, nil
}

// all are the Pods of a Node, and the position after them.
func (b *Index) all(name string) ([]change, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.nodes[name]
	if n == nil {
		return nil, b.passed
	}
	out := make([]change, 0, n.pods.Len())
	for e := n.first; e != nil; e = e.after {
		if !e.gone {
			out = append(out, change{watch.Added, e.pod, e.revision})
		}
	}
	return out, n.revision
}

// change is an event of a watch.
type change struct {
	kind     watch.EventType
	pod      *convert.TrimmedPod
	revision uint64
}

func (c change) object() *analysis.LocalPod {
	p := c.pod.OnNode()
	p.ResourceVersion = formatPosition(c.revision)
	return p
}

// since are the changes of a Node after a position, and what is closed when there are more.
func (b *Index) since(n *node, position uint64) ([]change, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if position < n.floor || position > n.revision {
		return nil, nil, ErrExpired
	}
	e := n.last
	for e != nil && e.revision > position {
		e = e.before
	}
	if e == nil {
		e = n.first
	} else {
		e = e.after
	}
	var out []change
	for ; e != nil; e = e.after {
		switch {
		case !e.gone && e.born > position:
			out = append(out, change{watch.Added, e.pod, e.revision})
		case !e.gone:
			out = append(out, change{watch.Modified, e.pod, e.revision})
		case e.born <= position:
			out = append(out, change{watch.Deleted, e.pod, e.revision})
		}
	}
	return out, n.changed, nil
}

func formatPosition(revision uint64) string { return strconv.FormatUint(revision, 10) }
