package egress

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// Pod is what counts of a Pod.
type Pod struct {
	Namespace, Name, Node string
	Labels                map[string]string
	Addresses             []netip.Addr
}

// World is what Egresses apply to.
type World struct {
	Egresses []v1beta1.Egress
	Pools    []v1beta1.ExternalIPPool
	// Namespaces and Nodes are their labels, by their names.
	Namespaces, Nodes map[string]map[string]string
	Pods              []Pod
}

// group is one that was computed. It does not change.
type group struct {
	uid     types.UID
	members []member
	// nodes are those that it concerns; everywhere tells that it is all.
	nodes      map[string]bool
	everywhere bool
}

type member struct {
	namespace, name string
	addresses       []netip.Addr
}

func (m member) compare(o member) int {
	return cmp.Or(cmp.Compare(m.namespace, o.namespace), cmp.Compare(m.name, o.name))
}

func (m member) equal(o member) bool {
	return m.compare(o) == 0 && slices.Equal(m.addresses, o.addresses)
}

func (m member) wire() v1beta2.GroupMember {
	out := v1beta2.GroupMember{Pod: &v1beta2.PodReference{Namespace: m.namespace, Name: m.name}}
	for _, a := range m.addresses {
		out.IPs = append(out.IPs, a.AsSlice())
	}
	return out
}

func (g *group) equal(o *group) bool {
	return g.uid == o.uid && g.everywhere == o.everywhere && maps.Equal(g.nodes, o.nodes) && slices.EqualFunc(g.members, o.members, member.equal)
}

func (g *group) concerns(node string) bool { return node == "" || g.everywhere || g.nodes[node] }

func (g *group) wire(name, version string) *v1beta2.EgressGroup {
	out := &v1beta2.EgressGroup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: g.uid, ResourceVersion: version}}
	for _, m := range g.members {
		out.GroupMembers = append(out.GroupMembers, m.wire())
	}
	return out
}

// compute makes the groups. An Egress whose selectors are wrong applies to nothing.
func compute(w *World) map[string]*group {
	eligible := map[string]map[string]bool{}
	for i := range w.Pools {
		s, err := metav1.LabelSelectorAsSelector(&w.Pools[i].Spec.NodeSelector)
		if err != nil {
			continue
		}
		of := map[string]bool{}
		for name, l := range w.Nodes {
			if s.Matches(labels.Set(l)) {
				of[name] = true
			}
		}
		eligible[w.Pools[i].Name] = of
	}
	out := map[string]*group{}
	for i := range w.Egresses {
		e := &w.Egresses[i]
		g := &group{uid: e.UID, nodes: map[string]bool{}}
		out[e.Name] = g
		for _, x := range e.Spec.Addresses() {
			g.everywhere = g.everywhere || x.Pool == ""
			maps.Copy(g.nodes, eligible[x.Pool])
		}
		s, ok := e.Spec.AppliedTo.Selector()
		if !ok {
			continue
		}
		for k := range w.Pods {
			p := &w.Pods[k]
			if s.Selects(p.Labels, w.Namespaces[p.Namespace]) {
				g.members, g.nodes[p.Node] = append(g.members, member{p.Namespace, p.Name, p.Addresses}), true
			}
		}
		slices.SortFunc(g.members, member.compare)
	}
	return out
}

// Groups are the Pods that Egresses apply to, for watches.
type Groups struct {
	mu      sync.Mutex
	of      map[string]*group
	version uint64
	// next is closed when there is something new.
	next chan struct{}
}

// NewGroups returns Groups of which nothing is known before the first Set: until then watches wait.
// Versions begin with first.
func NewGroups(first uint64) *Groups { return &Groups{version: first, next: make(chan struct{})} }

// Set takes in what there is.
func (g *Groups) Set(w *World) {
	of := compute(w)
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, x := range of { // what has not changed stays the same
		if was := g.of[name]; was != nil && was.equal(x) {
			of[name] = was
		}
	}
	if g.of != nil && maps.Equal(g.of, of) {
		return
	}
	g.of = of
	g.version++
	close(g.next)
	g.next = make(chan struct{})
}

func (g *Groups) now() (of map[string]*group, version string, next chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of, strconv.FormatUint(g.version, 10), g.next
}

// List returns what concerns a Node, or everything for an empty name, and as of when; false before
// anything is known.
func (g *Groups) List(node string) (list []v1beta2.EgressGroup, version string, known bool) {
	of, version, _ := g.now()
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name].concerns(node) {
			list = append(list, *of[name].wire(name, version))
		}
	}
	return list, version, of != nil
}

// Watch sends what concerns a Node until ctx ends, and calls ended then.
func (g *Groups) Watch(ctx context.Context, node string, bookmark func(*v1beta2.EgressGroup), ended func()) watch.Interface {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{out: make(chan watch.Event), cancel: cancel}
	go func() {
		defer ended()
		defer close(w.out)
		sent, begun := map[string]*group{}, false
		for {
			of, version, next := g.now()
			if of != nil {
				if !w.send(ctx, differences(sent, of, node, version)) {
					return
				}
				if !begun {
					mark := &v1beta2.EgressGroup{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
					bookmark(mark)
					if !w.send(ctx, []watch.Event{{Type: watch.Bookmark, Object: mark}}) {
						return
					}
				}
				begun = true
			}
			select {
			case <-ctx.Done():
				return
			case <-next:
			}
		}
	}()
	return w
}

type watcher struct {
	out    chan watch.Event
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.out }

func (w *watcher) send(ctx context.Context, events []watch.Event) bool {
	for _, e := range events {
		select {
		case w.out <- e:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// differences are what leads from what was sent to what there is, and notes that it was sent.
func differences(sent, of map[string]*group, node, version string) (out []watch.Event) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		g := of[name]
		was, there := sent[name]
		switch {
		case !g.concerns(node):
			continue
		case there && was.uid != g.uid: // another Egress of the same name
			out = append(out, watch.Event{Type: watch.Deleted, Object: was.wire(name, version)})
			fallthrough
		case !there:
			out = append(out, watch.Event{Type: watch.Added, Object: g.wire(name, version)})
		case was != g:
			if patch := patchOf(was, g, name, version); len(patch.AddedGroupMembers)+len(patch.RemovedGroupMembers) > 0 {
				out = append(out, watch.Event{Type: watch.Modified, Object: runtime.Object(patch)})
			}
		}
		sent[name] = g
	}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if g := of[name]; g == nil || !g.concerns(node) {
			out = append(out, watch.Event{Type: watch.Deleted, Object: sent[name].wire(name, version)})
			delete(sent, name)
		}
	}
	return out
}

// patchOf is what leads from one group to another. A member that has changed is added anew.
func patchOf(was, is *group, name, version string) *v1beta2.EgressGroupPatch {
	out := &v1beta2.EgressGroupPatch{ObjectMeta: metav1.ObjectMeta{Name: name, UID: is.uid, ResourceVersion: version}}
	i := 0
	for _, m := range is.members {
		for i < len(was.members) && was.members[i].compare(m) < 0 {
			out.RemovedGroupMembers = append(out.RemovedGroupMembers, was.members[i].wire())
			i++
		}
		if i < len(was.members) && was.members[i].compare(m) == 0 {
			if i++; was.members[i-1].equal(m) {
				continue
			}
		}
		out.AddedGroupMembers = append(out.AddedGroupMembers, m.wire())
	}
	for _, m := range was.members[i:] {
		out.RemovedGroupMembers = append(out.RemovedGroupMembers, m.wire())
	}
	return out
}
