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
	// object makes the object, for all who share it if it is shared.
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

func (h *header) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: h.name, UID: uidOf(h.name, h.uid), ResourceVersion: h.version.text}
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
	s.applied = v1beta2.AppliedToGroup{ObjectMeta: g.meta(), GroupMembers: s.members(s.one[:])}
	return &s.applied, true
}

func (g *ownGroup) encodings() *Frames { return nil }

// rendering is an object as receivers get it, which several may share: made when one of them asks
// for it. All that ask at the same time wait for the first of them to make it: a group of ten
// thousand members that a thousand of them made, each for itself, would take gigabytes.
type rendering struct {
	made atomic.Bool
	// few says that so few receivers are concerned that each may as well look at it in a scratch.
	few    bool
	making sync.Mutex
	frames Frames
	// whole is the object, once it is made; last is the last member in it if there are more.
	whole runtime.Object
	last  Member

	// What it is made from: a policy, or an address group with its members.
	header
	policy  PolicySource
	members []Member
}

// fewKeys is how many keys are few.
const fewKeys = 8

// sharedAt puts a rendering at a place that receivers share, unless there is one, and returns what
// is there now.
func sharedAt(place *atomic.Pointer[rendering], made *rendering) (r *rendering, first bool) {
	for {
		if place.CompareAndSwap(nil, made) {
			return made, true
		}
		if r = place.Load(); r != nil {
			return r, false
		}
	}
}

// finished is a rendering of an object that there is.
func finished(o runtime.Object) *rendering {
	r := &rendering{whole: o}
	r.made.Store(true)
	return r
}

// fill has the object made unless it is. If that panics, the next receiver tries again.
func (r *rendering) fill(build func()) {
	if r.made.Load() {
		return
	}
	r.making.Lock()
	defer r.making.Unlock()
	if !r.made.Load() {
		build()
		r.made.Store(true)
	}
}

func (r *rendering) nameOf() string {
	if r.name != "" {
		return r.name
	}
	return r.whole.(metav1.Object).GetName()
}

func (r *rendering) object() runtime.Object {
	if !r.made.Load() {
		r.fill(func() { r.whole = r.build() })
	}
	return r.whole
}

func (r *rendering) view(s *Scratch) (runtime.Object, bool) {
	if !r.few {
		return r.object(), false
	}
	if r.policy != nil {
		return r.policyIn(&s.policy), true
	}
	s.address = v1beta2.AddressGroup{ObjectMeta: r.meta(), GroupMembers: s.members(r.members)}
	return &s.address, true
}

func (r *rendering) encodings() *Frames { return &r.frames }

// build makes the object for all.
func (r *rendering) build() runtime.Object {
	if r.policy != nil {
		return r.policyIn(&PolicyRoom{})
	}
	room := roomFor(len(r.members))
	members := appendMembers(make([]v1beta2.GroupMember, 0, len(r.members)), r.members, &room)
	return &v1beta2.AddressGroup{ObjectMeta: r.meta(), GroupMembers: members}
}

func (r *rendering) policyIn(room *PolicyRoom) runtime.Object {
	p := r.policy.NetworkPolicy(room)
	p.ResourceVersion = r.version.text
	return p
}

func (r *rendering) event(t watch.EventType) Event {
	e := Event{Type: t, source: r}
	if r.made.Load() {
		e.ready = r.whole
	}
	return e
}

// Scratch is memory in which a receiver looks at one object after the other. The zero Scratch is
// ready to use; it grows to some 15 KB and is not safe for concurrent use.
type Scratch struct {
	policy  PolicyRoom
	address v1beta2.AddressGroup
	applied v1beta2.AppliedToGroup
	list    []v1beta2.GroupMember
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

// appendMembers makes members as enforcers receive them, each identity once.
func appendMembers(to []v1beta2.GroupMember, list []Member, room *Room) []v1beta2.GroupMember {
	for i, m := range list {
		if i == 0 || compareIdentity(list[i-1], m) != 0 {
			to = room.append(to, m)
		}
	}
	return to
}
