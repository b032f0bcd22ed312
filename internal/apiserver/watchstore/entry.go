package watchstore

import (
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// entry is one stored object. Its methods are called with the store locked.
type entry struct {
	name string
	// age orders objects by when they came.
	age      uint64
	revision uint64
	span     *span
	// policy makes a policy; it is nil for a group, which members are of. alias is the uid of a
	// group if that is not its name; few have one.
	policy  PolicySource
	members memberList
	alias   *types.UID
	// shared is what all receivers of a policy or of an address group are given, as long as
	// somebody is likely to need it. It is looked at without the lock, see Store.keep.
	shared atomic.Pointer[rendering]
}

// resource is the kind of the object.
func (e *entry) resource() Resource {
	switch {
	case e.policy != nil:
		return NetworkPolicies
	case e.members.placed:
		return AppliedToGroups
	}
	return AddressGroups
}

// setUID sets the uid of a group.
func (e *entry) setUID(uid types.UID) {
	e.alias = nil
	if string(uid) != e.name {
		other := uid
		e.alias = &other
	}
}

func (e *entry) uid() types.UID { return uidOf(e.name, e.alias) }

// uidOf is the uid of an object that has another one than its name, or nil for none.
func uidOf(name string, other *types.UID) types.UID {
	if other != nil {
		return *other
	}
	return types.UID(name)
}

// formatRevision is the resource version of an object that last changed in a revision.
func formatRevision(r uint64) string { return strconv.FormatUint(2*r, 10) }

// Position is the resource version of everything there is at a revision; a BOOKMARK carries it. It
// differs from that of every object: a receiver of an object has not therefore received all that
// changed before it.
func Position(revision uint64) string { return strconv.FormatUint(2*revision+1, 10) }

// versions puts revisions into words, the same one once: whatever came in one publication has it.
type versions struct{ last atomic.Pointer[version] }

// version is what objects of one publication have in common.
type version struct {
	store    *Store
	revision uint64
	text     string
	// alias is that of an entry that has one: it has a version of its own.
	alias *types.UID
}

// versionOf returns the version that objects without alias have.
func (s *Store) versionOf(revision uint64) *version {
	last := s.versions.last.Load()
	if last == nil || last.revision != revision {
		last = &version{store: s, revision: revision, text: formatRevision(revision)}
		s.versions.last.Store(last)
	}
	return last
}

// headerOf returns the header of an object.
func (s *Store) headerOf(e *entry) header { return s.headerAt(e, e.revision) }

// headerAt is headerOf an object as it was at a revision.
func (s *Store) headerAt(e *entry, revision uint64) header {
	v := s.versionOf(revision)
	if e.alias != nil {
		own := *v
		own.alias = e.alias
		v = &own
	}
	return header{e, v}
}

func (e *entry) meta(version string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: e.name, UID: e.uid(), ResourceVersion: version}
}

// whole is the object as a key sees it, as far as it fits into one event; last is the last member
// in it if there are more.
func (s *Store) whole(e *entry, key string, limit int) (object runtime.Object, last Member) {
	version := s.versionOf(e.revision).text
	switch e.resource() {
	case AddressGroups:
		members, last := e.members.piece(key, nil, limit)
		return &v1beta2.AddressGroup{ObjectMeta: e.meta(version), GroupMembers: members}, last
	case AppliedToGroups:
		members, last := e.members.piece(key, nil, limit)
		return &v1beta2.AppliedToGroup{ObjectMeta: e.meta(version), GroupMembers: members}, last
	}
	p := e.policy.NetworkPolicy(&PolicyRoom{})
	p.ResourceVersion = version
	return p, nil
}

// patchOf is what MODIFIED of a group carries, which is placed if it is an applied-to group.
func patchOf(placed bool, meta metav1.ObjectMeta, added, removed []v1beta2.GroupMember) runtime.Object {
	if placed {
		return &v1beta2.AppliedToGroupPatch{ObjectMeta: meta, AddedGroupMembers: added, RemovedGroupMembers: removed}
	}
	return &v1beta2.AddressGroupPatch{ObjectMeta: meta, AddedGroupMembers: added, RemovedGroupMembers: removed}
}

// tombstoneOf returns what DELETED of an object carries.
func (s *Store) tombstoneOf(e *entry) *tombstone {
	return &tombstone{header: s.headerOf(e), policy: e.policy, placed: e.members.placed}
}
