package watchstore

import (
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// Event is an event of a watch. What it carries is of the moment at which it was taken, however
// late its receiver asks. Any goroutine may ask.
type Event struct {
	Type watch.EventType
	header
	// body is what the object is made from besides the header, so that most events need no memory
	// of their own:
	//   - *sharedObject, which is made, *rendering, *memberPatch, or for few receivers the
	//     PolicySource of a policy: all of them have one object in common, made when one asks for it;
	//   - Member: an applied-to group of which a key sees one member, as most keys do of most groups;
	//   - *tombstone, bookmark: made for each receiver;
	//   - runtime.Object: the object, for this receiver alone.
	body any
}

// Name returns the name of the object, which is empty in a BOOKMARK.
func (e *Event) Name() string {
	if e.entry == nil {
		return ""
	}
	return e.entry.name
}

// Object returns the object. Unless Frames is nil it is shared with other receivers and must not be
// modified.
func (e *Event) Object() runtime.Object {
	switch b := e.body.(type) {
	case *sharedObject:
		return b.whole
	case *rendering:
		return b.object(&e.header)
	case *memberPatch:
		return b.object(&e.header)
	case *tombstone:
		return b.in(&e.header, nil)
	case bookmark:
		return b.in(&e.header, nil)
	case PolicySource:
		return e.sharedPolicy(b).object(&e.header)
	case Member:
		return e.ownGroup(b)
	}
	object, _ := e.body.(runtime.Object)
	return object
}

// View is Object for a receiver that is done with the object before it uses the scratch again. If
// own is true the outermost struct of the object is in the scratch, and may be modified.
func (e *Event) View(s *Scratch) (object runtime.Object, own bool) {
	switch b := e.body.(type) {
	case *sharedObject:
		return b.whole, false
	case *rendering:
		return b.view(&e.header, s)
	case *memberPatch:
		return b.view(&e.header, s)
	case *tombstone:
		return b.in(&e.header, s), true
	case bookmark:
		return b.in(&e.header, s), true
	case PolicySource:
		return e.policyIn(&s.policy, b), true
	case Member:
		g := s.emptyApplied()
		e.fill(&g.ObjectMeta)
		s.one[0] = b
		g.GroupMembers = s.members(s.one[:])
		return g, true
	}
	object, _ = e.body.(runtime.Object)
	return object, false
}

// Frames keeps how the object is encoded, for all receivers that get the same object; nil if it is
// for this one alone.
func (e *Event) Frames() *Frames {
	switch b := e.body.(type) {
	case *sharedObject:
		return &b.frames
	case *rendering:
		return &b.share().frames
	case *memberPatch:
		return &b.share().frames
	case *tombstone:
		return &b.frames
	case PolicySource:
		return &e.sharedPolicy(b).share().frames
	}
	return nil
}

// header is what every object has besides its content, of one moment.
type header struct {
	entry   *entry // of which only what never changes is looked at; nil in a BOOKMARK
	version *version
}

func (h *header) meta() (m metav1.ObjectMeta) {
	h.fill(&m)
	return m
}

// fill is meta in a zero one. To copy large objects takes time, and room on the stacks of ten
// thousand receivers.
func (h *header) fill(m *metav1.ObjectMeta) {
	m.Name, m.UID, m.ResourceVersion = h.entry.name, uidOf(h.entry.name, h.version.alias), h.version.text
}

// sharedPolicy is what the few receivers of a policy share, once one of them asks for it.
func (h *header) sharedPolicy(p PolicySource) *rendering {
	return h.version.store.keep(h, func() *rendering {
		return &rendering{revision: h.version.revision, few: true, policy: p}
	})
}

// policyIn makes a policy in a room.
func (h *header) policyIn(room *PolicyRoom, p PolicySource) runtime.Object {
	made := p.NetworkPolicy(room)
	made.ResourceVersion = h.version.text
	return made
}

// ownGroup makes an applied-to group with one member.
func (h *header) ownGroup(m Member) runtime.Object {
	var x struct { // in one piece of memory
		v1beta2.AppliedToGroup
		list [1]v1beta2.GroupMember
		pod  [1]v1beta2.PodReference
	}
	room := Room{left: 1, pods: x.pod[:]}
	m.Fill(&x.list[0], &room)
	x.ObjectMeta, x.GroupMembers = h.meta(), x.list[:]
	return &x.AppliedToGroup
}

// rendering is a policy or an address group as receivers get it, which several may share: made when
// one of them asks for it.
type rendering struct {
	sharing
	revision uint64
	// few says that so few receivers are concerned that each may as well look at it in a scratch.
	few bool
	// What it is made from: a policy, or an address group with its members.
	policy  PolicySource
	members []Member
}

// sharing is a place for an object that receivers share. All that ask at the same time wait for the
// first of them to make it: a group of ten thousand members that a thousand of them made, each for
// itself, would take gigabytes.
type sharing struct {
	// shared is nil until somebody wants what receivers share.
	shared atomic.Pointer[sharedObject]
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
func (r *sharing) whole(build func() (runtime.Object, Member)) *sharedObject {
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

func (r *sharing) share() *sharedObject {
	x := r.shared.Load()
	if x == nil {
		x, _ = sharedAt(&r.shared, &sharedObject{})
	}
	return x
}

// ready is what is shared if the object is made, else nil.
func (r *sharing) ready() *sharedObject {
	if x := r.shared.Load(); x != nil && x.made.Load() {
		return x
	}
	return nil
}

func (r *rendering) object(h *header) runtime.Object {
	return r.whole(func() (runtime.Object, Member) { return r.build(h), nil }).whole
}

func (r *rendering) view(h *header, s *Scratch) (runtime.Object, bool) {
	switch {
	case !r.few:
		return r.object(h), false
	case r.policy != nil:
		return h.policyIn(&s.policy, r.policy), true
	}
	g := s.emptyAddress()
	h.fill(&g.ObjectMeta)
	g.GroupMembers = s.members(r.members)
	return g, true
}

// build makes the object for all.
func (r *rendering) build(h *header) runtime.Object {
	if r.policy != nil {
		return h.policyIn(&PolicyRoom{}, r.policy)
	}
	room := roomFor(len(r.members))
	members := appendMembers(make([]v1beta2.GroupMember, 0, len(r.members)), r.members, &room)
	return &v1beta2.AddressGroup{ObjectMeta: h.meta(), GroupMembers: members}
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

// in makes the object in a scratch, or without one to keep.
func (t *tombstone) in(h *header, s *Scratch) runtime.Object {
	switch {
	case t.policy != nil:
		p := t.policy.Identity(s.policyRoom())
		p.ResourceVersion = h.version.text
		return p
	case t.placed:
		g := s.emptyApplied()
		h.fill(&g.ObjectMeta)
		return g
	}
	g := s.emptyAddress()
	h.fill(&g.ObjectMeta)
	return g
}

// bookmark is the kind of object that a BOOKMARK carries: one without name, made for each receiver.
type bookmark uint8

// in makes the object, which says nothing but the position, in a scratch, or without one to keep.
func (b bookmark) in(h *header, s *Scratch) runtime.Object {
	position := Position(h.version.revision)
	switch Resources()[b] {
	case AddressGroups:
		g := s.emptyAddress()
		g.ResourceVersion = position
		return g
	case AppliedToGroups:
		g := s.emptyApplied()
		g.ResourceVersion = position
		return g
	}
	room := s.policyRoom()
	room.Policy = v1beta2.NetworkPolicy{}
	room.Policy.ResourceVersion = position
	return &room.Policy
}

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

// emptyAddress, emptyApplied and policyRoom are where an object is made: without a scratch, for
// that object alone.
func (s *Scratch) emptyAddress() *v1beta2.AddressGroup {
	if s == nil {
		return &v1beta2.AddressGroup{}
	}
	s.address = v1beta2.AddressGroup{}
	return &s.address
}

func (s *Scratch) emptyApplied() *v1beta2.AppliedToGroup {
	if s == nil {
		return &v1beta2.AppliedToGroup{}
	}
	s.applied = v1beta2.AppliedToGroup{}
	return &s.applied
}

func (s *Scratch) policyRoom() *PolicyRoom {
	if s == nil {
		return &PolicyRoom{}
	}
	return &s.policy
}

// members makes a list of at most maxRoom members.
func (s *Scratch) members(list []Member) []v1beta2.GroupMember {
	s.room = Room{left: len(list), pods: s.pods, at: s.at, scratch: s}
	s.list = appendMembers(s.list[:0], list, &s.room)
	return s.list
}

// patchOf makes a patch of at most maxRoom changes.
func (s *Scratch) patchOf(h *header, p *memberPatch) runtime.Object {
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
	if p.placed {
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
