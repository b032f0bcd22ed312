package watchstore

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// memberPatch is the net change of a group's members in one view, from what the receiver holds. It
// is not modified once made.
type memberPatch struct {
	revision uint64
	// changes are sorted by identity, which is in there once.
	changes []memberChange
	patched
	// sharing is of the receivers that get the same patch.
	sharing
}

// patched is the kind of group that is patched: placed is that of its members, and many says that
// it concerns more than few keys.
type patched struct{ placed, many bool }

func (p *memberPatch) object(h *header) runtime.Object {
	return p.whole(func() (runtime.Object, Member) {
		added, removed := p.lists()
		return patchOf(p.placed, h.meta(), added, removed), nil
	}).whole
}

func (p *memberPatch) view(h *header, s *Scratch) (runtime.Object, bool) {
	if p.many || len(p.changes) > maxRoom {
		return p.object(h), false
	}
	return s.patchOf(h, p), true
}

// memberChange is a member that came, that overwrites one of the same identity, or that left.
type memberChange struct {
	member Member
	verb   verb
	// unseen says that the receiver holds another member of the identity than the one that left,
	// which has overwritten it meanwhile.
	unseen bool
}

type verb uint8

const (
	come verb = iota
	overwrite
	leave
)

func (p *memberPatch) empty() bool { return p == nil || len(p.changes) == 0 }

// then returns the net change of p followed by next.
func (p *memberPatch) then(next *memberPatch) *memberPatch {
	if p.empty() {
		return next
	}
	if next.empty() {
		return p
	}
	out := &memberPatch{revision: next.revision, patched: next.patched, changes: make([]memberChange, 0, len(p.changes)+len(next.changes))}
	a, b := p.changes, next.changes
	for len(a) > 0 && len(b) > 0 {
		switch c := compareIdentity(a[0].member, b[0].member); {
		case c < 0:
			out.changes = append(out.changes, a[0])
			a = a[1:]
		case c > 0:
			out.changes = append(out.changes, b[0])
			b = b[1:]
		default:
			if net, ok := a[0].then(b[0]); ok {
				out.changes = append(out.changes, net)
			}
			a, b = a[1:], b[1:]
		}
	}
	out.changes = append(append(out.changes, a...), b...)
	return out
}

// then returns the net change of two of one identity, or false if they cancel each other out.
func (c memberChange) then(next memberChange) (memberChange, bool) {
	switch {
	case c.verb == leave:
		return memberChange{member: next.member, verb: overwrite}, c.unseen || !sameMember(c.member, next.member)
	case next.verb == leave:
		return memberChange{member: next.member, verb: leave, unseen: true}, c.verb == overwrite
	default:
		return memberChange{member: next.member, verb: c.verb}, true
	}
}

// split cuts off what does not fit into one event; rest is nil if all does.
func (p *memberPatch) split(limit int) (first, rest *memberPatch) {
	size := 0
	for i, c := range p.changes {
		if size += weigh(c.member); size > limit && i > 0 {
			return &memberPatch{revision: p.revision, patched: p.patched, changes: p.changes[:i]},
				&memberPatch{revision: p.revision, patched: p.patched, changes: p.changes[i:]}
		}
	}
	return p, nil
}

func (p *memberPatch) lists() (added, removed []v1beta2.GroupMember) {
	left := 0
	for _, c := range p.changes {
		if c.verb == leave {
			left++
		}
	}
	if n := len(p.changes) - left; n > 0 {
		added = make([]v1beta2.GroupMember, 0, n)
	}
	if left > 0 {
		removed = make([]v1beta2.GroupMember, 0, left)
	}
	room := roomFor(len(p.changes))
	for _, c := range p.changes {
		if c.verb == leave {
			removed = room.append(removed, c.member)
		} else {
			added = room.append(added, c.member)
		}
	}
	return added, removed
}

// sameMember reports whether two members of the same identity look the same.
func sameMember(a, b Member) bool {
	if a == b {
		return true
	}
	_, _, na := a.Reference()
	_, _, nb := b.Reference()
	if na != nb || compareIdentity(a, b) != 0 {
		return false
	}
	if compareAddresses(a, b) != 0 {
		return false
	}
	_, m := a.Shape()
	_, n := b.Shape()
	if m+n == 0 {
		return true
	}
	both := make([]v1beta2.GroupMember, 0, 2)
	var room Room
	both = room.append(room.append(both, a), b)
	return slices.Equal(both[0].Ports, both[1].Ports)
}

// groupDiff is one change of a group, from which each view's patch is cut.
type groupDiff struct {
	group   *memberList
	touched []touchedMember
	// shared is the patch that all views have in common, if they do.
	shared   *memberPatch
	revision uint64
	// many says that more than few keys are concerned.
	many bool
}

func newGroupDiff(e *entry, touched []touchedMember) *groupDiff {
	g := &e.members
	d := &groupDiff{group: g, touched: touched, revision: e.revision, many: len(e.span.keys) > fewKeys}
	if !g.placed {
		d.shared = d.cut("", nil)
		if d.shared == nil {
			d.shared = &memberPatch{}
		}
	}
	return d
}

// patch is the change as key sees it; it may be nil.
func (d *groupDiff) patch(key string) *memberPatch {
	if d.shared != nil {
		return d.shared
	}
	return d.cut(key, nil)
}

// cut is the change for a key that has received the members up to one of them; nil means all. It is
// nil if nothing changes.
func (d *groupDiff) cut(key string, upTo Member) *memberPatch {
	sees := func(m Member) bool {
		return m != nil && (!d.group.placed || visible(key, m)) && (upTo == nil || d.group.order(m, upTo) <= 0)
	}
	var seen []touchedMember
	for _, t := range d.touched {
		if sees(t.either()) {
			seen = append(seen, t)
		}
	}
	if seen == nil {
		return nil
	}
	if d.group.placed {
		seen = joinPlaces(seen)
	}
	p := &memberPatch{revision: d.revision, patched: patched{d.group.placed, d.many}, changes: make([]memberChange, 0, len(seen))}
	for _, t := range seen {
		switch {
		case t.after == nil:
			p.changes = append(p.changes, memberChange{member: t.before, verb: leave})
		case t.before == nil:
			p.changes = append(p.changes, memberChange{member: t.after, verb: come})
		case !sameMember(t.before, t.after):
			p.changes = append(p.changes, memberChange{member: t.after, verb: overwrite})
		}
	}
	if len(p.changes) == 0 {
		return nil
	}
	return p
}

// joinPlaces makes one of what happened to one identity in several places: a member that moves from
// host to host is in two, of which a view may see both.
func joinPlaces(seen []touchedMember) []touchedMember {
	if len(seen) == 1 {
		return seen
	}
	slices.SortStableFunc(seen, func(a, b touchedMember) int { return compareIdentity(a.either(), b.either()) })
	out := seen[:1]
	for _, t := range seen[1:] {
		last := &out[len(out)-1]
		if compareIdentity(last.either(), t.either()) != 0 {
			out = append(out, t)
			continue
		}
		if last.before == nil {
			last.before = t.before
		}
		if t.after != nil {
			last.after = t.after
		}
	}
	return out
}
