package watchstore

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// entry is one stored object. Its methods are called with the store locked.
type entry interface {
	// whole is the object as key sees it.
	whole(key string) runtime.Object
	// tombstone is what DELETED carries.
	tombstone() runtime.Object
	// modified is what MODIFIED carries; p is nil for policies.
	modified(key string, p *memberPatch) runtime.Object
}

// formatRevision is the resource version of an object that last changed in a revision.
func formatRevision(r uint64) string { return strconv.FormatUint(2*r, 10) }

// Position is the resource version of everything there is at a revision; a BOOKMARK carries it. It differs from that of
// every object: one who has received an object has not therefore received all that changed before it.
func Position(revision uint64) string { return strconv.FormatUint(2*revision+1, 10) }

type policyEntry struct {
	policy *v1beta2.NetworkPolicy
	span   sets.Set[string]
}

func (e *policyEntry) whole(string) runtime.Object                  { return e.policy }
func (e *policyEntry) modified(string, *memberPatch) runtime.Object { return e.policy }
func (e *policyEntry) tombstone() runtime.Object                    { return policyTombstone(e.policy) }

func policyTombstone(p *v1beta2.NetworkPolicy) *v1beta2.NetworkPolicy {
	return &v1beta2.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID, Generation: p.Generation, ResourceVersion: p.ResourceVersion},
		SourceRef:  p.SourceRef,
	}
}

// place is where a group holds a member. Address groups have one place; applied-to groups have one per host, and one for
// the members that every key sees.
type place struct {
	host       string
	everywhere bool
}

// groupEntry is an address group or an applied-to group.
type groupEntry struct {
	resource Resource
	name     string
	uid      types.UID
	revision uint64
	span     sets.Set[string]
	// members by place and identity.
	members map[place]map[string]*Member
	// twins are Nodes that have the same addresses, and so the same identity: more than one, sorted by name. The first of
	// them stands for all.
	twins map[string][]*Member
	// shared caches the view that all receivers of an address group have in common.
	shared atomic.Pointer[v1beta2.AddressGroup]
}

func newGroupEntry(r Resource, name string) *groupEntry {
	return &groupEntry{
		resource: r, name: name, span: sets.New[string](), members: map[place]map[string]*Member{}, twins: map[string][]*Member{},
	}
}

// sees reports whether key sees the members of a place.
func (e *groupEntry) sees(key string, p place) bool {
	return key == "" || e.resource == AddressGroups || p.everywhere || p.host == key
}

func (e *groupEntry) placeOf(m *Member) place {
	switch {
	case e.resource == AddressGroups:
		return place{}
	case m.Everywhere:
		return place{everywhere: true}
	}
	return place{host: m.Host}
}

// apply takes over the members of a change and returns what it made of every identity that it is about.
func (e *groupEntry) apply(added, removed []*Member) []touchedMember {
	index := map[place]map[string]int{}
	var touched []touchedMember
	touch := func(m *Member) (place, string) {
		p, id := e.placeOf(m), m.identity()
		if index[p] == nil {
			index[p] = map[string]int{}
		}
		if _, ok := index[p][id]; !ok {
			index[p][id] = len(touched)
			touched = append(touched, touchedMember{place: p, id: id, before: e.members[p][id]})
		}
		return p, id
	}
	for _, m := range removed {
		p, id := touch(m)
		e.set(p, id, e.withoutTwin(id, m))
	}
	for _, m := range added {
		p, id := touch(m)
		e.set(p, id, e.withTwin(id, e.members[p][id], m))
	}
	for i, t := range touched {
		touched[i].after = e.members[t.place][t.id]
	}
	return touched
}

// set holds m, or nothing if it is nil.
func (e *groupEntry) set(p place, id string, m *Member) {
	set := e.members[p]
	switch {
	case m != nil && set == nil:
		e.members[p] = map[string]*Member{id: m}
	case m != nil:
		set[id] = m
	default:
		if delete(set, id); len(set) == 0 {
			delete(e.members, p)
		}
	}
}

// withTwin returns who stands for an identity when m joins the one that did.
func (e *groupEntry) withTwin(id string, held, m *Member) *Member {
	if m.Node == nil || held == nil || (held.Node.Name == m.Node.Name && e.twins[id] == nil) {
		return m
	}
	twins := e.twins[id]
	if twins == nil {
		twins = []*Member{held}
	}
	twins = append(withoutNode(twins, m), m)
	slices.SortFunc(twins, func(a, b *Member) int { return strings.Compare(a.Node.Name, b.Node.Name) })
	e.twins[id] = twins
	return twins[0]
}

// withoutTwin returns who stands for an identity when m leaves; nil if nobody is left.
func (e *groupEntry) withoutTwin(id string, m *Member) *Member {
	twins := e.twins[id]
	if twins == nil {
		return nil
	}
	twins = withoutNode(twins, m)
	if len(twins) == 1 {
		delete(e.twins, id)
	} else {
		e.twins[id] = twins
	}
	return twins[0]
}

func withoutNode(twins []*Member, m *Member) []*Member {
	return slices.DeleteFunc(slices.Clone(twins), func(t *Member) bool { return t.Node.Name == m.Node.Name })
}

func (e *groupEntry) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: e.name, UID: e.uid, ResourceVersion: formatRevision(e.revision)}
}

func (e *groupEntry) whole(key string) runtime.Object {
	if e.resource == AddressGroups {
		if v := e.shared.Load(); v != nil {
			return v
		}
		v := &v1beta2.AddressGroup{ObjectMeta: e.meta(), GroupMembers: sortedMembers(e.members[place{}])}
		e.shared.Store(v)
		return v
	}
	seen := map[string]*Member{}
	if key == "" {
		for _, set := range e.members {
			maps.Copy(seen, set)
		}
	} else {
		maps.Copy(seen, e.members[place{everywhere: true}])
		maps.Copy(seen, e.members[place{host: key}])
	}
	return &v1beta2.AppliedToGroup{ObjectMeta: e.meta(), GroupMembers: sortedMembers(seen)}
}

func (e *groupEntry) tombstone() runtime.Object {
	if e.resource == AddressGroups {
		return &v1beta2.AddressGroup{ObjectMeta: e.meta()}
	}
	return &v1beta2.AppliedToGroup{ObjectMeta: e.meta()}
}

func (e *groupEntry) modified(_ string, p *memberPatch) runtime.Object {
	added, removed := p.lists()
	if e.resource == AddressGroups {
		return &v1beta2.AddressGroupPatch{ObjectMeta: e.meta(), AddedGroupMembers: added, RemovedGroupMembers: removed}
	}
	return &v1beta2.AppliedToGroupPatch{ObjectMeta: e.meta(), AddedGroupMembers: added, RemovedGroupMembers: removed}
}

// sortedMembers lists members by identity, so that equal sets look equal.
func sortedMembers(set map[string]*Member) []v1beta2.GroupMember {
	if len(set) == 0 {
		return nil
	}
	ids := make([]string, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, strings.Compare)
	out := make([]v1beta2.GroupMember, len(ids))
	for i, id := range ids {
		out[i] = set[id].GroupMember
	}
	return out
}
