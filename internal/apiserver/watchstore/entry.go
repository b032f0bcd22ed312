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
	// concerns reports whether the object is in the view of key; every object is in the view of the empty key.
	concerns(key string) bool
	// whole is the object as key sees it.
	whole(key string) runtime.Object
	// tombstone is what DELETED carries.
	tombstone() runtime.Object
	// modified is what MODIFIED carries; p is nil for policies.
	modified(key string, p *memberPatch) runtime.Object
}

func formatRevision(r uint64) string { return strconv.FormatUint(r, 10) }

type policyEntry struct {
	policy *v1beta2.NetworkPolicy
	span   sets.Set[string]
}

func (e *policyEntry) concerns(key string) bool                     { return key == "" || e.span.Has(key) }
func (e *policyEntry) whole(string) runtime.Object                  { return e.policy }
func (e *policyEntry) modified(string, *memberPatch) runtime.Object { return e.policy }
func (e *policyEntry) tombstone() runtime.Object                    { return policyTombstone(e.policy) }

func policyTombstone(p *v1beta2.NetworkPolicy) *v1beta2.NetworkPolicy {
	return &v1beta2.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID, Generation: p.Generation, ResourceVersion: p.ResourceVersion},
		SourceRef:  p.SourceRef,
	}
}

// groupEntry is an address group or an applied-to group. Members are held per host; address groups have one host, "".
type groupEntry struct {
	resource Resource
	name     string
	uid      types.UID
	revision uint64
	span     sets.Set[string]
	hosts    map[string]map[string]*Member
	// everywhere are the members of an applied-to group that every key sees.
	everywhere map[string]*Member
	// shared caches the view that all receivers of an address group have in common.
	shared atomic.Pointer[v1beta2.AddressGroup]
}

func newGroupEntry(r Resource, name string) *groupEntry {
	return &groupEntry{resource: r, name: name, span: sets.New[string](),
		hosts: map[string]map[string]*Member{}, everywhere: map[string]*Member{}}
}

func (e *groupEntry) concerns(key string) bool { return key == "" || e.span.Has(key) }

// apply takes over the members of a change.
func (e *groupEntry) apply(added, removed []*Member) {
	for _, m := range removed {
		set := e.holder(m)
		delete(set, m.identity())
		if len(set) == 0 && !m.Everywhere {
			delete(e.hosts, e.host(m))
		}
	}
	for _, m := range added {
		set := e.holder(m)
		if set == nil {
			set = map[string]*Member{}
			e.hosts[e.host(m)] = set
		}
		set[m.identity()] = m
	}
}

func (e *groupEntry) host(m *Member) string {
	if e.resource == AddressGroups {
		return ""
	}
	return m.Host
}

func (e *groupEntry) holder(m *Member) map[string]*Member {
	if e.resource == AppliedToGroups && m.Everywhere {
		return e.everywhere
	}
	return e.hosts[e.host(m)]
}

// sees reports whether the member belongs to the view of key.
func (e *groupEntry) sees(key string, m *Member) bool {
	return key == "" || e.resource == AddressGroups || m.Everywhere || m.Host == key
}

func (e *groupEntry) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: e.name, UID: e.uid, ResourceVersion: formatRevision(e.revision)}
}

func (e *groupEntry) whole(key string) runtime.Object {
	if e.resource == AddressGroups {
		if v := e.shared.Load(); v != nil {
			return v
		}
		v := &v1beta2.AddressGroup{ObjectMeta: e.meta(), GroupMembers: sortedMembers(e.hosts[""])}
		e.shared.Store(v)
		return v
	}
	members := e.hosts[key]
	if key == "" || len(e.everywhere) > 0 {
		members = map[string]*Member{}
		maps.Copy(members, e.everywhere)
		for host, set := range e.hosts {
			if key == "" || host == key {
				maps.Copy(members, set)
			}
		}
	}
	return &v1beta2.AppliedToGroup{ObjectMeta: e.meta(), GroupMembers: sortedMembers(members)}
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
