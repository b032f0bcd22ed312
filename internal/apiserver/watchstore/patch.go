package watchstore

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// memberPatch is the net change of a group's members in one view, from what the receiver holds. No identity is both in
// added and in removed. A patch that was handed to a watcher is not modified any more, but replaced.
type memberPatch struct {
	added   map[string]addition
	removed map[string]*Member
}

// addition is a member that is new, or that overwrites one the receiver holds under the same identity.
type addition struct {
	member    *Member
	overwrite bool
}

func newMemberPatch() *memberPatch {
	return &memberPatch{added: map[string]addition{}, removed: map[string]*Member{}}
}

func (p *memberPatch) empty() bool { return len(p.added)+len(p.removed) == 0 }

// then returns the net change of p followed by next.
func (p *memberPatch) then(next *memberPatch) *memberPatch {
	out := &memberPatch{added: maps.Clone(p.added), removed: maps.Clone(p.removed)}
	for id, m := range next.removed {
		before, pending := out.added[id]
		delete(out.added, id)
		if !pending || before.overwrite {
			out.removed[id] = m
		}
	}
	for id, a := range next.added {
		if former, gone := out.removed[id]; gone {
			delete(out.removed, id)
			if !sameMember(former, a.member) {
				out.added[id] = addition{a.member, true}
			}
			continue
		}
		before, pending := out.added[id]
		out.added[id] = addition{a.member, (pending && before.overwrite) || (!pending && a.overwrite)}
	}
	return out
}

func (p *memberPatch) lists() (added, removed []v1beta2.GroupMember) {
	plain := make(map[string]*Member, len(p.added))
	for id, a := range p.added {
		plain[id] = a.member
	}
	return sortedMembers(plain), sortedMembers(p.removed)
}

func sameMember(a, b *Member) bool {
	return equality.Semantic.DeepEqual(a.GroupMember, b.GroupMember)
}

// groupDiff is one change of a group, from which each view's patch is cut.
type groupDiff struct {
	entry   *groupEntry
	touched []touchedMember
	// shared is the patch that all views have in common, if they do.
	shared *memberPatch
}

// touchedMember is what a change made of one identity in one place: members of one host, or those of everybody.
type touchedMember struct {
	place
	id            string
	before, after *Member
}

func newGroupDiff(e *groupEntry, touched []touchedMember) *groupDiff {
	d := &groupDiff{entry: e, touched: touched}
	if e.resource == AddressGroups {
		d.shared = d.cut("")
	}
	return d
}

// patch is the change as key sees it.
func (d *groupDiff) patch(key string) *memberPatch {
	if d.shared != nil {
		return d.shared
	}
	return d.cut(key)
}

func (d *groupDiff) cut(key string) *memberPatch {
	// A member that moves from host to host is in two places, of which a view may see both.
	before, after := map[string]*Member{}, map[string]*Member{}
	for _, t := range d.touched {
		if !d.entry.sees(key, t.place) {
			continue
		}
		if t.before != nil {
			before[t.id] = t.before
		}
		if t.after != nil {
			after[t.id] = t.after
		}
	}
	p := newMemberPatch()
	for id, m := range before {
		if after[id] == nil {
			p.removed[id] = m
		}
	}
	for id, m := range after {
		former := before[id]
		if former == nil || !sameMember(former, m) {
			p.added[id] = addition{m, former != nil}
		}
	}
	return p
}
