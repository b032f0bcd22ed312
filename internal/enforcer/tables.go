package enforcer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// table holds the objects of one kind.
type table interface {
	// put adds an object, or takes it in the place of the one with its name.
	put(o runtime.Object) error
	// modify applies what a Modified event carries.
	modify(o runtime.Object) error
	// remove deletes the object that a Deleted event names.
	remove(o runtime.Object) error
}

func newTable(r Resource, pack bool) table {
	switch r {
	case AddressGroups:
		return newGroups[AddressGroup](pack)
	case AppliedToGroups:
		return newGroups[v1beta2.AppliedToGroup](pack)
	default:
		return policies{}
	}
}

// change applies a live event.
func change(t table, ev watch.Event) error {
	switch ev.Type {
	case watch.Added:
		return t.put(ev.Object)
	case watch.Modified:
		return t.modify(ev.Object)
	case watch.Deleted:
		return t.remove(ev.Object)
	}
	return fmt.Errorf("an event of the unknown type %q", ev.Type)
}

// policies are always whole.
type policies map[string]*v1beta2.NetworkPolicy

func (t policies) put(o runtime.Object) error {
	p, ok := o.(*v1beta2.NetworkPolicy)
	if !ok {
		return unexpected(o, "a NetworkPolicy")
	}
	if p.TypeMeta != (metav1.TypeMeta{}) { // as it may be after decoding; a source in this process shares its objects
		c := *p
		c.TypeMeta = metav1.TypeMeta{}
		p = &c
	}
	t[p.Name] = p
	return nil
}

func (t policies) modify(o runtime.Object) error { return t.put(o) }

func (t policies) remove(o runtime.Object) error {
	p, ok := o.(*v1beta2.NetworkPolicy)
	if !ok {
		return unexpected(o, "a NetworkPolicy")
	}
	delete(t, p.Name)
	return nil
}

// grouping is what the two kinds of groups are kept as.
type grouping interface {
	AddressGroup | v1beta2.AppliedToGroup
}

// groups are the groups of one kind. They begin whole and are changed by patches.
type groups[T grouping] struct {
	byName map[string]*group[T]
	// built is what was handed out last; nil if a group has come or gone since. changed are those
	// that were patched since.
	built   *[]*T
	changed map[string]bool
	pack    bool
}

func newGroups[T grouping](pack bool) groups[T] {
	return groups[T]{map[string]*group[T]{}, new([]*T), map[string]bool{}, pack}
}

type group[T grouping] struct {
	// now is the group as it is handed out, its members sorted by identity. It is never changed.
	now *T
	// at is the place among those that were handed out last.
	at int
}

func (t groups[T]) put(o runtime.Object) error {
	meta, members, err := received[T](o)
	if err != nil {
		return err
	}
	*t.built = nil
	t.byName[meta.Name] = &group[T]{now: groupOf[T](*meta, merge(nil, sortedMembers(members), nil), t.pack)}
	return nil
}

// modify applies a patch: additions first, then removals. A member that is added although it is
// there takes its place: its named ports have changed.
func (t groups[T]) modify(o runtime.Object) error {
	var meta metav1.ObjectMeta
	var added, removed []v1beta2.GroupMember
	var own any
	switch p := o.(type) {
	case *v1beta2.AddressGroupPatch:
		meta, added, removed, own = p.ObjectMeta, p.AddedGroupMembers, p.RemovedGroupMembers, (*AddressGroup)(nil)
	case *v1beta2.AppliedToGroupPatch:
		meta, added, removed, own = p.ObjectMeta, p.AddedGroupMembers, p.RemovedGroupMembers, (*v1beta2.AppliedToGroup)(nil)
	}
	if _, fits := own.(*T); !fits {
		return unexpected(o, "a patch of the group")
	}
	g := t.byName[meta.Name]
	if g == nil {
		return fmt.Errorf("a patch for the unknown group %s", meta.Name)
	}
	was, members := partsOf(g.now)
	next := *was
	next.ResourceVersion = meta.ResourceVersion
	g.now = groupOf[T](next, merge(members, sortedMembers(added), sortedMembers(removed)), t.pack)
	t.changed[meta.Name] = true
	return nil
}

func (t groups[T]) remove(o runtime.Object) error {
	meta, _, err := received[T](o)
	if err != nil {
		return err
	}
	delete(t.byName, meta.Name)
	*t.built = nil
	return nil
}

// all returns the groups sorted by name, with their members sorted by identity.
func (t groups[T]) all() []*T {
	if t.byName == nil {
		return []*T{}
	}
	var out []*T
	if *t.built == nil {
		out = make([]*T, 0, len(t.byName))
		for i, name := range slices.Sorted(maps.Keys(t.byName)) {
			g := t.byName[name]
			g.at = i
			out = append(out, g.now)
		}
	} else if out = *t.built; len(t.changed) > 0 {
		out = slices.Clone(out) // the former one is somebody else's
		for name := range t.changed {
			g := t.byName[name]
			out[g.at] = g.now
		}
	}
	clear(t.changed)
	*t.built = out
	return out
}

// received returns what an object of the wire is made of.
func received[T grouping](o runtime.Object) (*metav1.ObjectMeta, []v1beta2.GroupMember, error) {
	switch any((*T)(nil)).(type) {
	case *AddressGroup:
		if g, ok := o.(*v1beta2.AddressGroup); ok {
			return &g.ObjectMeta, g.GroupMembers, nil
		}
		return nil, nil, unexpected(o, "an AddressGroup")
	default:
		if g, ok := o.(*v1beta2.AppliedToGroup); ok {
			return &g.ObjectMeta, g.GroupMembers, nil
		}
		return nil, nil, unexpected(o, "an AppliedToGroup")
	}
}

// partsOf returns what a group is made of.
func partsOf[T grouping](g *T) (*metav1.ObjectMeta, []v1beta2.GroupMember) {
	switch o := any(g).(type) {
	case *AddressGroup:
		whole := o.Object()
		return &whole.ObjectMeta, whole.GroupMembers
	case *v1beta2.AppliedToGroup:
		return &o.ObjectMeta, o.GroupMembers
	}
	return nil, nil // there is no other
}

func groupOf[T grouping](meta metav1.ObjectMeta, members []v1beta2.GroupMember, pack bool) *T {
	var out T
	switch o := any(&out).(type) {
	case *AddressGroup:
		whole := &v1beta2.AddressGroup{ObjectMeta: meta, GroupMembers: members}
		if pack {
			*o = *packedGroup(whole)
		} else {
			*o = *NewAddressGroup(whole)
		}
	case *v1beta2.AppliedToGroup:
		o.ObjectMeta, o.GroupMembers = meta, members
	}
	return &out
}

// keyedMember is a member with its identity.
type keyedMember struct {
	key string
	v1beta2.GroupMember
}

// sortedMembers sorts members by identity. Of several with the same one the last counts.
func sortedMembers(members []v1beta2.GroupMember) []keyedMember {
	out := make([]keyedMember, 0, len(members))
	for _, m := range members {
		out = append(out, keyedMember{memberKey(m), m})
	}
	slices.SortStableFunc(out, func(a, b keyedMember) int { return strings.Compare(a.key, b.key) })
	n := 0
	for i, m := range out {
		if i+1 < len(out) && out[i+1].key == m.key {
			continue
		}
		out[n] = m
		n++
	}
	return out[:n]
}

// merge returns sorted members with those that are added, which take the places of those that are
// the same, and without those that are removed. The identity of the members is looked at only where
// something is added or removed.
func merge(members []v1beta2.GroupMember, added, removed []keyedMember) []v1beta2.GroupMember {
	out := make([]v1beta2.GroupMember, 0, len(members)+len(added))
	for len(added)+len(removed) > 0 {
		take := len(added) > 0 && (len(removed) == 0 || added[0].key <= removed[0].key)
		next := ""
		if take {
			next = added[0].key
		} else {
			next = removed[0].key
		}
		at, there := slices.BinarySearchFunc(members, next, func(m v1beta2.GroupMember, key string) int { return strings.Compare(memberKey(m), key) })
		out, members = append(out, members[:at]...), members[at:]
		if there {
			members = members[1:]
		}
		if take {
			if len(removed) == 0 || removed[0].key != next {
				out = append(out, added[0].GroupMember)
			}
			added = added[1:]
		} else {
			removed = removed[1:]
		}
	}
	return append(out, members...)
}

// memberKey is the identity of a member: its reference and the raw bytes of its addresses in their
// order, of a Node the addresses alone. Where a Node has none, in applied-to groups, it is its
// name; an Antrea Agent takes all of those for one.
func memberKey(m v1beta2.GroupMember) string {
	var b strings.Builder
	switch {
	case m.Pod != nil:
		b.WriteString("Pod:" + m.Pod.Namespace + "/" + m.Pod.Name)
	case m.ExternalEntity != nil:
		b.WriteString("ExternalEntity:" + m.ExternalEntity.Namespace + "/" + m.ExternalEntity.Name)
	case m.Service != nil:
		b.WriteString("Service:" + m.Service.Namespace + "/" + m.Service.Name)
	case m.Node != nil && len(m.IPs) == 0:
		b.WriteString("Node:" + m.Node.Name)
	}
	for _, ip := range m.IPs {
		b.WriteByte(' ')
		b.Write(ip)
	}
	return b.String()
}

func unexpected(o runtime.Object, want string) error {
	return fmt.Errorf("unexpected %T in the stream, want %s", o, want)
}
