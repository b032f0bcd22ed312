package watchstore

import (
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// Event is an event of a watch. What it carries is of the moment at which it was taken, however
// late its receiver asks. Any goroutine may ask.
type Event struct {
	Type watch.EventType
	// ready is the object, if there was one when the event was made; nil is one that is made on
	// demand. source is what it is made from, or shared with; nil if there is no such.
	ready  runtime.Object
	source source
}

// source is what objects of events are made from.
type source interface {
	nameOf() string
	// object makes the object, for all receivers that share it if it is shared.
	object() runtime.Object
	// view is object, which may be in the scratch: then own is true.
	view(*Scratch) (object runtime.Object, own bool)
	encodings() *Frames
}

// Name returns the name of the object, which is empty in a BOOKMARK.
func (e *Event) Name() string {
	if e.source != nil {
		return e.source.nameOf()
	}
	return e.ready.(metav1.Object).GetName()
}

// Object returns the object. Unless Frames is nil it is shared with other receivers and must not be
// modified.
func (e *Event) Object() runtime.Object {
	if e.ready != nil || e.source == nil {
		return e.ready
	}
	return e.source.object()
}

// View is Object for a receiver that is done with the object before it uses the scratch again. If
// own is true the outermost struct of the object is in the scratch, and may be modified.
func (e *Event) View(s *Scratch) (object runtime.Object, own bool) {
	if object = e.ready; object == nil {
		object, own = e.source.view(s)
	}
	return object, own
}

// Frames keeps how the object is encoded, for all receivers that get the same object; nil if it is
// for this one alone.
func (e *Event) Frames() *Frames {
	if e.source == nil {
		return nil
	}
	return e.source.encodings()
}

// header is what every object has besides its content. Of a group, uid is nil if that is its
// name.
type header struct {
	name    string
	uid     *types.UID
	version *version
}

func (h *header) meta() (m metav1.ObjectMeta) {
	h.fill(&m)
	return m
}

// fill is meta in a zero one. To copy large objects takes time, and room on the stacks of ten
// thousand receivers.
func (h *header) fill(m *metav1.ObjectMeta) {
	m.Name, m.UID, m.ResourceVersion = h.name, uidOf(h.name, h.uid), h.version.text
}

// ownGroup is an applied-to group of which a key sees one member, as most keys do of most groups.
type ownGroup struct {
	header
	member Member
}

func (g *ownGroup) nameOf() string { return g.name }

func (g *ownGroup) object() runtime.Object {
	var x struct { // in one piece of memory
		v1beta2.AppliedToGroup
		list [1]v1beta2.GroupMember
		pod  [1]v1beta2.PodReference
	}
	room := Room{left: 1, pods: x.pod[:]}
	g.member.Fill(&x.list[0], &room)
	x.ObjectMeta, x.GroupMembers = g.meta(), x.list[:]
	return &x.AppliedToGroup
}

func (g *ownGroup) view(s *Scratch) (runtime.Object, bool) {
	s.one[0] = g.member
	s.applied = v1beta2.AppliedToGroup{}
	g.fill(&s.applied.ObjectMeta)
	s.applied.GroupMembers = s.members(s.one[:])
	return &s.applied, true
}

func (g *ownGroup) encodings() *Frames { return nil }

// rendering is an object as receivers get it, which several may share: made when one of them asks
// for it. All that ask at the same time wait for the first of them to make it: a group of ten
// thousand members that a thousand of them made, each for itself, would take gigabytes.
type rendering struct {
	// shared is nil until somebody wants what receivers share.
	shared atomic.Pointer[sharedObject]
	// few says that so few receivers are concerned that each may as well look at it in a scratch.
	few bool

	// What it is made from: a policy, an address group with its members, or a patch of a group,
	// placed if that is an applied-to group.
	placed bool
	header
	policy  PolicySource
	members []Member
	patch   *memberPatch
}

// sharedObject is an object, once it is made, and its encodings.
type sharedObject struct {
	made   atomic.Bool
	making sync.Mutex
	frames Frames
	// last is the last member in whole if there are more.
	whole runtime.Object
	last  Member
}

// fewKeys is how many keys are few.
const fewKeys = 8

// sharedAt puts something at a place that receivers share, unless there is one, and returns what is
// there now.
func sharedAt[T any](place *atomic.Pointer[T], made *T) (r *T, first bool) {
	for {
		if place.CompareAndSwap(nil, made) {
			return made, true
		}
		if r = place.Load(); r != nil {
			return r, false
		}
	}
}

// whole returns what is shared, with the object made unless it is. If that panics, the next
// receiver tries again.
func (r *rendering) whole(build func() (runtime.Object, Member)) *sharedObject {
	x := r.share()
	if x.made.Load() {
		return x
	}
	x.making.Lock()
	defer x.making.Unlock()
	if !x.made.Load() {
		x.whole, x.last = build()
		x.made.Store(true)
	}
	return x
}

func (r *rendering) share() *sharedObject {
	x := r.shared.Load()
	if x == nil {
		x, _ = sharedAt(&r.shared, &sharedObject{})
	}
	return x
}

func (r *rendering) nameOf() string { return r.name }

func (r *rendering) object() runtime.Object { return r.whole(r.build).whole }

func (r *rendering) view(s *Scratch) (runtime.Object, bool) {
	switch {
	case !r.few:
		return r.object(), false
	case r.policy != nil:
		return r.policyIn(&s.policy), true
	case r.patch != nil:
		return s.patchOf(r.placed, &r.header, r.patch), true
	}
	s.address = v1beta2.AddressGroup{}
	r.fill(&s.address.ObjectMeta)
	s.address.GroupMembers = s.members(r.members)
	return &s.address, true
}

func (r *rendering) encodings() *Frames { return &r.share().frames }

// build makes the object for all.
func (r *rendering) build() (object runtime.Object, last Member) {
	switch {
	case r.policy != nil:
		return r.policyIn(&PolicyRoom{}), nil
	case r.patch != nil:
		added, removed := r.patch.lists()
		return patchOf(r.placed, r.meta(), added, removed), nil
	}
	room := roomFor(len(r.members))
	members := appendMembers(make([]v1beta2.GroupMember, 0, len(r.members)), r.members, &room)
	return &v1beta2.AddressGroup{ObjectMeta: r.meta(), GroupMembers: members}, nil
}

func (r *rendering) policyIn(room *PolicyRoom) runtime.Object {
	p := r.policy.NetworkPolicy(room)
	p.ResourceVersion = r.version.text
	return p
}

func (r *rendering) event(t watch.EventType) Event {
	e := Event{Type: t, source: r}
	if x := r.shared.Load(); x != nil && x.made.Load() {
		e.ready = x.whole
	}
	return e
}

// tombstone is an object that is gone, or does not concern a receiver any more: what it is called,
// of a policy also what it was computed from. It is made for each receiver.
type tombstone struct {
	frames Frames
	header
	// policy is nil for a group; placed is that of a group's members.
	policy PolicySource
	placed bool
}

func (t *tombstone) nameOf() string { return t.name }

func (t *tombstone) object() runtime.Object {
	switch {
	case t.policy != nil:
		return t.identityIn(&PolicyRoom{})
	case t.placed:
		return &v1beta2.AppliedToGroup{ObjectMeta: t.meta()}
	}
	return &v1beta2.AddressGroup{ObjectMeta: t.meta()}
}

func (t *tombstone) view(s *Scratch) (runtime.Object, bool) {
	switch {
	case t.policy != nil:
		return t.identityIn(&s.policy), true
	case t.placed:
		s.applied = v1beta2.AppliedToGroup{}
		t.fill(&s.applied.ObjectMeta)
		return &s.applied, true
	}
	s.address = v1beta2.AddressGroup{}
	t.fill(&s.address.ObjectMeta)
	return &s.address, true
}

func (t *tombstone) encodings() *Frames { return &t.frames }

func (t *tombstone) identityIn(room *PolicyRoom) runtime.Object {
	p := t.policy.Identity(room)
	p.ResourceVersion = t.version.text
	return p
}

// bookmark is what a BOOKMARK carries: an object without name, made for each receiver.
type bookmark struct {
	resource Resource
	revision uint64
}

func (b *bookmark) nameOf() string { return "" }

func (b *bookmark) object() runtime.Object {
	switch b.resource {
	case AddressGroups:
		return b.on(&v1beta2.AddressGroup{})
	case AppliedToGroups:
		return b.on(&v1beta2.AppliedToGroup{})
	}
	return b.on(&v1beta2.NetworkPolicy{})
}

func (b *bookmark) view(s *Scratch) (runtime.Object, bool) {
	switch b.resource {
	case AddressGroups:
		s.address = v1beta2.AddressGroup{}
		return b.on(&s.address), true
	case AppliedToGroups:
		s.applied = v1beta2.AppliedToGroup{}
		return b.on(&s.applied), true
	}
	s.policy.Policy = v1beta2.NetworkPolicy{}
	return b.on(&s.policy.Policy), true
}

// on says the position on an object that has nothing else.
func (b *bookmark) on(o interface {
	runtime.Object
	SetResourceVersion(string)
}) runtime.Object {
	o.SetResourceVersion(Position(b.revision))
	return o
}

func (b *bookmark) encodings() *Frames { return nil }

// Scratch is memory in which a receiver looks at one object after the other. The zero Scratch is
// ready to use; it grows to some 15 KB and is not safe for concurrent use.
type Scratch struct {
	policy  PolicyRoom
	address v1beta2.AddressGroup
	applied v1beta2.AppliedToGroup
	patches struct {
		address v1beta2.AddressGroupPatch
		applied v1beta2.AppliedToGroupPatch
	}
	list []v1beta2.GroupMember
	// one is the list of one member. pods and at are what the room has of these, whatever is left
	// of them in the room.
	one  [1]Member
	room Room
	pods []v1beta2.PodReference
	at   []podAt
}

// members makes a list of at most maxRoom members.
func (s *Scratch) members(list []Member) []v1beta2.GroupMember {
	s.room = Room{left: len(list), pods: s.pods, at: s.at, scratch: s}
	s.list = appendMembers(s.list[:0], list, &s.room)
	return s.list
}

// patchOf makes a patch of at most maxRoom changes.
func (s *Scratch) patchOf(placed bool, h *header, p *memberPatch) runtime.Object {
	s.room = Room{left: len(p.changes), pods: s.pods, at: s.at, scratch: s}
	s.list = s.list[:0]
	list := func(left bool) (part []v1beta2.GroupMember) {
		from := len(s.list)
		for _, c := range p.changes {
			if (c.verb == leave) == left {
				s.list = s.room.append(s.list, c.member)
				part = s.list[from:]
			}
		}
		return part
	}
	added := list(false)
	removed := list(true)
	if placed {
		to := &s.patches.applied
		*to = v1beta2.AppliedToGroupPatch{}
		h.fill(&to.ObjectMeta)
		to.AddedGroupMembers, to.RemovedGroupMembers = added, removed
		return to
	}
	to := &s.patches.address
	*to = v1beta2.AddressGroupPatch{}
	h.fill(&to.ObjectMeta)
	to.AddedGroupMembers, to.RemovedGroupMembers = added, removed
	return to
}

// appendMembers makes members as enforcers receive them, each identity once.
func appendMembers(to []v1beta2.GroupMember, list []Member, room *Room) []v1beta2.GroupMember {
	for i, m := range list {
		if i == 0 || compareIdentity(list[i-1], m) != 0 {
			to = room.append(to, m)
		}
	}
	return to
}
