package watchstore

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// memberList holds the members of a group, sorted by place, then by identity. Address groups have
// one place; applied-to groups have one for the members that every key sees, and one per host.
// Nodes with the same addresses have the same identity: they are sorted by name, and the first
// stands for all.
type memberList struct {
	placed bool
	// borrowed says that an event may still read the whole list: it is replaced, not changed.
	borrowed atomic.Bool
	list     []Member
}

// borrow returns the list for an event to read later, if it is short and fits into one event.
func (l *memberList) borrow(limit int) (list []Member, ok bool) {
	if len(l.list) > maxRoom {
		return nil, false
	}
	size := 0
	for _, m := range l.list {
		size += weigh(m)
	}
	if size > limit && len(l.list) > 1 {
		return nil, false
	}
	l.borrowed.Store(true)
	return l.list, true
}

// comparePlace compares where applied-to groups hold members.
func comparePlace(a, b Member) int {
	hostA, everywhereA := a.Place()
	hostB, everywhereB := b.Place()
	if everywhereA != everywhereB {
		if everywhereA {
			return -1
		}
		return 1
	}
	return strings.Compare(hostA, hostB)
}

// compareIdentity compares what tells members of one group apart: the reference and the addresses;
// for Nodes the addresses alone, if they have any.
func compareIdentity(a, b Member) int {
	ka, sa, na := a.Reference()
	kb, sb, nb := b.Reference()
	if ka == KindNode {
		na = nameOfNode(a, na)
	}
	if kb == KindNode {
		nb = nameOfNode(b, nb)
	}
	if c := cmp.Or(cmp.Compare(ka, kb), strings.Compare(sa, sb), strings.Compare(na, nb)); c != 0 || a == b {
		return c
	}
	return compareAddresses(a, b)
}

// nameOfNode returns the name of a Node as far as it counts.
func nameOfNode(m Member, name string) string {
	if addresses, _ := m.Shape(); addresses > 0 {
		return ""
	}
	return name
}

func compareAddresses(a, b Member) int {
	n, _ := a.Shape()
	m, _ := b.Shape()
	for i := range min(n, m) {
		x, y := a.Address(i), b.Address(i)
		if c := bytes.Compare(x[:], y[:]); c != 0 {
			return c
		}
	}
	return cmp.Compare(n, m)
}

// order compares two members by place and identity.
func (l *memberList) order(a, b Member) int {
	if l.placed {
		if c := comparePlace(a, b); c != 0 {
			return c
		}
	}
	return compareIdentity(a, b)
}

// exact is order that tells Nodes of one identity apart.
func (l *memberList) exact(a, b Member) int {
	c := l.order(a, b)
	if c != 0 {
		return c
	}
	_, _, na := a.Reference()
	_, _, nb := b.Reference()
	return strings.Compare(na, nb)
}

// fill makes these the members. It takes over the list.
func (l *memberList) fill(members []Member) {
	if !slices.IsSortedFunc(members, l.exact) {
		slices.SortStableFunc(members, l.exact)
	}
	l.list = members
}

// at returns the member with the identity of m at its place.
func (l *memberList) at(m Member) Member {
	if i, ok := slices.BinarySearchFunc(l.list, m, l.order); ok {
		return l.list[i]
	}
	return nil
}

// touchedMember is what a change made of one identity in one place; nil means that no member has
// it.
type touchedMember struct{ before, after Member }

func (t touchedMember) either() Member {
	if t.after != nil {
		return t.after
	}
	return t.before
}

// apply takes over a change and returns what it made of every identity that it is about, in order.
func (l *memberList) apply(added, removed []Member) []touchedMember {
	if l.borrowed.Swap(false) {
		l.list = slices.Clone(l.list)
	}
	about := make([]Member, 0, len(added)+len(removed))
	about = append(append(about, removed...), added...)
	slices.SortStableFunc(about, l.order)
	about = slices.CompactFunc(about, func(a, b Member) bool { return l.order(a, b) == 0 })
	touched := make([]touchedMember, len(about))
	for i, m := range about {
		touched[i].before = l.at(m)
	}
	if len(about) > 64 && len(about) > len(l.list)/64 {
		l.merge(added, removed)
	} else {
		for _, m := range removed {
			if i, ok := slices.BinarySearchFunc(l.list, m, l.exact); ok {
				l.list = slices.Delete(l.list, i, i+1)
			}
		}
		for _, m := range added {
			i, ok := slices.BinarySearchFunc(l.list, m, l.exact)
			if ok {
				l.list[i] = m
			} else {
				l.list = slices.Insert(l.list, i, m)
			}
		}
	}
	for i, m := range about {
		touched[i].after = l.at(m)
	}
	return slices.DeleteFunc(touched, func(t touchedMember) bool { return t.before == nil && t.after == nil })
}

// merge takes over a large change in one pass.
func (l *memberList) merge(added, removed []Member) {
	added, removed = slices.Clone(added), slices.Clone(removed)
	slices.SortStableFunc(added, l.exact)
	slices.SortStableFunc(removed, l.exact)
	out := make([]Member, 0, len(l.list)+len(added))
	held := l.list
	for len(held)+len(added) > 0 {
		switch {
		case len(held) == 0 || (len(added) > 0 && l.exact(added[0], held[0]) <= 0):
			if n := len(out); n > 0 && l.exact(out[n-1], added[0]) == 0 {
				out[n-1] = added[0]
			} else {
				out = append(out, added[0])
			}
			if len(held) > 0 && l.exact(added[0], held[0]) == 0 {
				held = held[1:]
			}
			added = added[1:]
		default:
			for len(removed) > 0 && l.exact(removed[0], held[0]) < 0 {
				removed = removed[1:]
			}
			if len(removed) == 0 || l.exact(removed[0], held[0]) != 0 {
				out = append(out, held[0])
			}
			held = held[1:]
		}
	}
	l.list = out
}

// seen returns the members that a key sees, in two parts. The empty key sees all.
func (l *memberList) seen(key string) (everywhere, own []Member) {
	if !l.placed || key == "" {
		return nil, l.list
	}
	n := 0
	for n < len(l.list) && isEverywhere(l.list[n]) {
		n++
	}
	rest := l.list[n:]
	from, _ := slices.BinarySearchFunc(rest, key, func(m Member, key string) int { return strings.Compare(hostOf(m), key) })
	to := from
	for to < len(rest) && hostOf(rest[to]) == key {
		to++
	}
	return l.list[:n], rest[from:to]
}

// only returns the member that a key sees if it sees just one.
func (l *memberList) only(key string) Member {
	everywhere, own := l.seen(key)
	if len(everywhere) > 0 || len(own) != 1 {
		return nil
	}
	return own[0]
}

func isEverywhere(m Member) bool {
	_, everywhere := m.Place()
	return everywhere
}

func hostOf(m Member) string {
	host, _ := m.Place()
	return host
}

// visible reports whether a key sees a member of an applied-to group.
func visible(key string, m Member) bool { return key == "" || isEverywhere(m) || hostOf(m) == key }

// weigh estimates the size of a member in the larger of the encodings, JSON, in bytes.
func weigh(m Member) int {
	_, namespace, name := m.Reference()
	addresses, ports := m.Shape()
	return 80 + len(name) + len(namespace) + 30*addresses + ports
}

// piece lists members behind one, or from the beginning, as far as they fit into one event; next is
// the last of them if there are more.
func (l *memberList) piece(key string, behind Member, limit int) (members []v1beta2.GroupMember, next Member) {
	everywhere, own := l.seen(key)
	size, last := 0, Member(nil)
	var room Room
	take := func(part []Member) bool {
		if behind != nil {
			i, ok := slices.BinarySearchFunc(part, behind, l.order)
			for ok && i < len(part) && l.order(part[i], behind) == 0 {
				i++
			}
			part = part[i:]
		}
		for i, m := range part {
			if last != nil && compareIdentity(last, m) == 0 {
				continue
			}
			if size += weigh(m); size > limit && last != nil {
				next = last
				return false
			}
			if last == nil {
				room = roomFor(min(len(part)-i, limit/80+1))
				members = make([]v1beta2.GroupMember, 0, room.left)
			}
			members, last = room.append(members, m), m
		}
		return true
	}
	if take(everywhere) {
		take(own)
	}
	return members, next
}
