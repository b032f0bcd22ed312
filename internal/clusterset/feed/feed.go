// Package feed is what a member sends its hub: its workloads, reduced to what peers need.
//
// It owns the workloads, and which of them were sent in the present stream. A set of labels is sent
// once for all workloads that have it, without the labels that are unique to a workload.
//
// Everything here is pure. A Feed is not safe for concurrent use.
package feed

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/table"
)

// Feed is what there is to tell.
type Feed struct {
	sets map[string]*labelSet
	free []int
	last int

	entities   index
	namespaces map[string]*namespace
	// dirty is what is to be told, gone or not.
	dirtyEntities   map[wire.Ref]struct{}
	dirtyNamespaces map[string]struct{}
	// accounts are regions of cloud accounts by the objects that they are of; untold says that they
	// are to be told.
	accounts map[string][]string
	untold   bool
	// interests are the groups that own policies name, by the policies, and all of them by id.
	interests      map[string][]string
	asked          map[string]*asked
	dirtyInterests map[string]struct{}
	// listing says that a listing has begun and not ended.
	listing, begun bool
	// sequence is that of the last record, listed that of the one that ended the last listing.
	// gone are those that were told to be gone, with the sequence: floor is up to where they are
	// not known any more.
	sequence, listed, floor uint64
	gone                    map[wire.Ref]uint64
	goneNamespaces          map[string]uint64
	goneInterests           map[string]uint64
	accountsTold            uint64
	// resuming says that the hub waits to be told that all has been told.
	resuming bool
	// exports are the exported Services by Namespace and name; served are the names of Services
	// whose endpoints have changed. unserved says that the hub does not understand Services.
	exports  map[string]map[string]*export
	served   map[policy.NamespacedName]struct{}
	unserved bool
	// hosted are Pods in the network of their Node, which are no entities.
	hosted map[wire.Ref]*entity
	// many: there were many dirty entities since there were none.
	many bool
}

// mostGone bounds how many are remembered that are gone.
const mostGone = 10_000

// labelSet is a set of labels, and how many have it.
type labelSet struct {
	id, uses int
	text     string
	labels   map[string]string
	// told is the sequence of the record that told it; 0 if none did.
	told uint64
}

// entity is what a record tells of a workload, but for the number of its labels.
type entity struct {
	ref       wire.Ref
	addresses []netip.Addr
	ports     []wire.Port
	account   string
	set       *labelSet
	// told is the sequence of the last record that told of it.
	told uint64
}

// index finds entities by what they are named. There are many, so it keeps no names.
type index struct{ entities table.Table[entity] }

func (x *index) hash(ref wire.Ref) uint32 {
	var room [128]byte
	name := append(room[:0], ref.Kind...)
	name = append(append(name, '/'), ref.Namespace...)
	return x.entities.HashBytes(append(append(name, '/'), ref.Name...))
}

// of is the entity of that name; nil if there is none.
func (x *index) of(ref wire.Ref) *entity {
	return x.entities.Find(x.hash(ref), func(e *entity) bool { return e.ref == ref })
}

func (x *index) insert(e *entity) { x.entities.Insert(x.hash(e.ref), e) }

func (x *index) remove(e *entity) { x.entities.Remove(x.hash(e.ref), e) }

// asked is a group that own policies name, and how many of them do.
type asked struct {
	wire.Interest
	uses int
	told uint64
}

type namespace struct {
	name string
	set  *labelSet
	told uint64
}

// New returns a Feed of nothing.
func New() *Feed {
	return &Feed{
		sets: map[string]*labelSet{}, namespaces: map[string]*namespace{},
		dirtyEntities: map[wire.Ref]struct{}{}, dirtyNamespaces: map[string]struct{}{}, accounts: map[string][]string{},
		interests: map[string][]string{}, asked: map[string]*asked{}, dirtyInterests: map[string]struct{}{},
		gone: map[wire.Ref]uint64{}, goneNamespaces: map[string]uint64{}, goneInterests: map[string]uint64{},
		exports: map[string]map[string]*export{}, hosted: map[wire.Ref]*entity{}, served: map[policy.NamespacedName]struct{}{},
	}
}

// set returns the set of these labels with one more use; nil for none.
func (f *Feed) set(labels map[string]string, workload bool) *labelSet {
	told := make(map[string]string, len(labels))
	for k, v := range labels {
		if !workload || !peers.Unshared(k) {
			told[k] = v
		}
	}
	if len(told) == 0 {
		return nil
	}
	raw, err := json.Marshal(told)
	if err != nil {
		panic("labels are texts: " + err.Error())
	}
	if s := f.sets[string(raw)]; s != nil {
		s.uses++
		return s
	}
	s := &labelSet{uses: 1, text: string(raw), labels: told}
	if n := len(f.free); n > 0 {
		s.id, f.free = f.free[n-1], f.free[:n-1]
	} else {
		f.last++
		s.id = f.last
	}
	f.sets[s.text] = s
	return s
}

func (f *Feed) release(s *labelSet) {
	if s == nil {
		return
	}
	if s.uses--; s.uses == 0 {
		delete(f.sets, s.text)
		f.free = append(f.free, s.id)
	}
}

// PutNamespace notes a Namespace.
func (f *Feed) PutNamespace(name string, labels map[string]string) {
	told := map[string]string{}
	for k, v := range labels {
		if !peers.Reserved(k) {
			told[k] = v
		}
	}
	set := f.set(told, false)
	n := f.namespaces[name]
	if n != nil && n.set == set {
		f.release(set)
		return
	}
	if n == nil {
		n = &namespace{name: name}
		f.namespaces[name] = n
	}
	f.release(n.set)
	n.set = set
	f.dirtyNamespaces[name] = struct{}{}
}

// DropNamespace notes that a Namespace is gone.
func (f *Feed) DropNamespace(name string) {
	if n := f.namespaces[name]; n != nil {
		f.release(n.set)
		delete(f.namespaces, name)
		f.dirtyNamespaces[name] = struct{}{}
	}
}

// PutAccount notes the regions of the account that an object is about, each as
// PROVIDER/ACCOUNT/REGION; none if the object is gone, or writes nothing.
func (f *Feed) PutAccount(object string, regions []string) {
	if slices.Equal(f.accounts[object], regions) {
		return
	}
	if f.untold = true; len(regions) == 0 {
		delete(f.accounts, object)
	} else {
		f.accounts[object] = regions
	}
}

// PutInterests notes which groups an own policy names; none if it is gone. It reports whether other
// groups are named now than before.
func (f *Feed) PutInterests(policy string, all []wire.Interest) (changed bool) {
	former := f.interests[policy]
	if delete(f.interests, policy); len(all) > 0 {
		ids := make([]string, 0, len(all))
		for _, i := range all {
			ids = append(ids, i.Group)
			if f.asked[i.Group] == nil {
				f.asked[i.Group] = &asked{Interest: i}
				f.dirtyInterests[i.Group], changed = struct{}{}, true
			}
			f.asked[i.Group].uses++
		}
		f.interests[policy] = ids
	}
	for _, id := range former {
		if f.asked[id].uses--; f.asked[id].uses == 0 {
			delete(f.asked, id)
			f.dirtyInterests[id], changed = struct{}{}, true
		}
	}
	return changed
}

// Interests returns the ids of the groups that own policies name, sorted.
func (f *Feed) Interests() []string { return slices.Sorted(maps.Keys(f.asked)) }

// RefOf names an entity of the engine on the wire. It is false for what is not told.
func RefOf(r policy.EntityRef) (wire.Ref, bool) {
	switch r.Kind {
	case policy.KindPod:
		return wire.Ref{Kind: wire.Pod, Namespace: r.Namespace, Name: r.Name}, true
	case policy.KindExternalEntity:
		return wire.Ref{Kind: wire.Machine, Namespace: r.Namespace, Name: r.Name}, true
	case policy.KindNode:
		return wire.Ref{Kind: wire.Node, Name: r.Name}, true
	}
	return wire.Ref{}, false
}

// PutEntity notes an entity. One that is in no group, or has no address, is not reported, except as
// a part of a Service that it serves.
func (f *Feed) PutEntity(in *policy.Entity) {
	ref, ok := RefOf(in.EntityRef)
	if !ok {
		return
	}
	if in.Terminated || len(in.Addresses) == 0 || in.HostNetwork && ref.Kind != wire.Pod {
		f.DropEntity(in.EntityRef)
		return
	}
	told := in.Labels
	for k := range in.Labels {
		if peers.Reserved(k) {
			told = maps.Clone(in.Labels)
			maps.DeleteFunc(told, func(k, _ string) bool { return peers.Reserved(k) })
			break
		}
	}
	next := &entity{ref: ref, addresses: in.Addresses, account: in.ServiceAccount, set: f.set(told, in.Kind != policy.KindNode)}
	if in.Kind == policy.KindPod && in.ServiceAccount == wire.DefaultAccount {
		next.account = ""
	}
	for _, p := range in.Ports {
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(policy.TCP)
		}
		next.ports = append(next.ports, wire.Port{Name: p.Name, Protocol: protocol, Port: p.Port})
	}
	if in.HostNetwork {
		f.host(ref, next)
		return
	}
	f.unhost(ref)
	if f.put(next) {
		f.follow(ref)
	}
}

// host notes a Pod in the network of its Node. It is no entity, for its address is that of the Node
// and of other Pods; but with its port it serves what it serves.
func (f *Feed) host(ref wire.Ref, next *entity) {
	f.unhost(ref)
	f.drop(ref)
	f.hosted[ref] = next
	f.follow(ref)
}

// unhost forgets such a Pod, and reports whether there was one.
func (f *Feed) unhost(ref wire.Ref) bool {
	e := f.hosted[ref]
	if e == nil {
		return false
	}
	f.release(e.set)
	delete(f.hosted, ref)
	return true
}

// put makes an entity what it is now, and reports whether it was something else.
func (f *Feed) put(next *entity) bool {
	ref := next.ref
	if was := f.entities.of(ref); was == nil {
		f.entities.insert(next)
	} else {
		next.told = was.told
		f.release(was.set)
		same := was.set == next.set && was.account == next.account && slices.Equal(was.addresses, next.addresses) && slices.Equal(was.ports, next.ports)
		if *was = *next; same {
			return false
		}
	}
	if ref.Kind != wire.Service || !f.unserved {
		f.dirtyEntities[ref] = struct{}{}
	}
	return true
}

// DropEntity notes that an entity is gone.
func (f *Feed) DropEntity(r policy.EntityRef) {
	ref, ok := RefOf(r)
	if !ok {
		return
	}
	hosted := f.unhost(ref)
	if f.drop(ref) || hosted {
		f.follow(ref)
	}
}

// drop forgets an entity, and reports whether there was one.
func (f *Feed) drop(ref wire.Ref) bool {
	e := f.entities.of(ref)
	if e == nil {
		return false
	}
	f.release(e.set)
	f.entities.remove(e)
	if ref.Kind != wire.Service || !f.unserved {
		f.dirtyEntities[ref] = struct{}{}
	}
	return true
}

// Size is how many entities there are to tell of.
func (f *Feed) Size() int { return f.entities.entities.Len() }

// Begin begins a stream: all is to be told, as one listing.
func (f *Feed) Begin() { f.BeginAs(wire.Version) }

// BeginAs is Begin for a hub with which an older version is spoken: what it does not understand is
// not told.
func (f *Feed) BeginAs(version int) {
	f.unserved = version < wire.VersionServices
	for _, s := range f.sets {
		s.told = 0
	}
	clear(f.gone)
	clear(f.goneNamespaces)
	clear(f.goneInterests)
	f.floor, f.resuming = f.sequence, false
	clear(f.dirtyEntities)
	clear(f.dirtyNamespaces)
	for e := range f.entities.entities.All() {
		if e.ref.Kind != wire.Service || !f.unserved {
			f.dirtyEntities[e.ref] = struct{}{}
		}
	}
	for name := range f.namespaces {
		f.dirtyNamespaces[name] = struct{}{}
	}
	clear(f.dirtyInterests)
	for id := range f.asked {
		f.dirtyInterests[id] = struct{}{}
	}
	f.listing, f.begun, f.untold = true, false, true
}

// Resume goes on in a new stream after the records up to taken, which the hub has had: what came
// after them is told again. It reports false if that is not known any more; then Begin is to be
// called.
func (f *Feed) Resume(taken uint64) bool {
	if f.listing || taken < f.listed || taken < f.floor || taken > f.sequence {
		return false
	}
	for _, s := range f.sets {
		if s.told > taken {
			s.told = 0
		}
	}
	for e := range f.entities.entities.All() {
		if e.told > taken {
			f.dirtyEntities[e.ref] = struct{}{}
		}
	}
	for name, n := range f.namespaces {
		if n.told > taken {
			f.dirtyNamespaces[name] = struct{}{}
		}
	}
	for id, a := range f.asked {
		if a.told > taken {
			f.dirtyInterests[id] = struct{}{}
		}
	}
	again(f.gone, f.dirtyEntities, taken)
	again(f.goneNamespaces, f.dirtyNamespaces, taken)
	again(f.goneInterests, f.dirtyInterests, taken)
	f.untold = f.untold || f.accountsTold > taken
	f.resuming = true
	return true
}

// again makes those dirty that were told to be gone after a record.
func again[K comparable](gone map[K]uint64, dirty map[K]struct{}, taken uint64) {
	for k, told := range gone {
		if told > taken {
			dirty[k] = struct{}{}
		}
	}
}

// bury remembers that something was reported gone. If there is too much of it, a stream that breaks
// now begins with everything.
func (f *Feed) bury(do func()) {
	if len(f.gone)+len(f.goneNamespaces)+len(f.goneInterests) >= mostGone {
		clear(f.gone)
		clear(f.goneNamespaces)
		clear(f.goneInterests)
		f.floor = f.sequence
	}
	do()
}

// A record is of about mostBytes, of which a name takes namedBytes.
const mostBytes, namedBytes = 128 << 10, 120

// Next returns the next record to send; nil if there is none. What is gone is sent first, so that
// new entities find room.
func (f *Feed) Next() *wire.Up {
	if !f.listing && !f.untold && !f.resuming && len(f.dirtyEntities)+len(f.dirtyNamespaces)+len(f.dirtyInterests) == 0 {
		return nil
	}
	f.sequence++
	out := &wire.Up{Sequence: f.sequence}
	if f.listing && !f.begun {
		out.Whole, f.begun = true, true
	}
	if f.untold {
		all := slices.Sorted(maps.Keys(f.accounts))
		regions := []string{}
		for _, name := range all {
			regions = append(regions, f.accounts[name]...)
		}
		slices.Sort(regions)
		regions = slices.Compact(regions)
		regions = regions[:min(len(regions), wire.MostAccounts)]
		out.Accounts, f.untold, f.accountsTold = &regions, false, f.sequence
	}
	room := f.interestsInto(out, mostBytes)
	for _, name := range slices.Sorted(maps.Keys(f.dirtyNamespaces)) {
		if room <= 0 {
			break
		}
		room -= namedBytes
		delete(f.dirtyNamespaces, name)
		n := f.namespaces[name]
		if n == nil {
			out.GoneNamespaces = append(out.GoneNamespaces, name)
			f.bury(func() { f.goneNamespaces[name] = f.sequence })
			continue
		}
		n.told = f.sequence
		out.Namespaces = append(out.Namespaces, wire.Namespace{Name: name, Labels: f.tell(out, n.set, &room)})
	}
	if room > 0 && len(f.dirtyEntities) > 0 {
		room = f.entitiesInto(out, room)
	}
	if f.listing && room > 0 {
		out.Listed, f.listing, f.listed = true, false, f.sequence
	}
	if f.resuming && room > 0 {
		out.Listed, f.resuming = true, false
	}
	return out
}

// interestsInto fills a record with groups that own policies name, and returns how much room is
// left.
func (f *Feed) interestsInto(out *wire.Up, room int) int {
	for _, id := range slices.Sorted(maps.Keys(f.dirtyInterests)) {
		if room <= 0 {
			break
		}
		delete(f.dirtyInterests, id)
		i := f.asked[id]
		if i == nil {
			room -= namedBytes
			out.GoneInterests = append(out.GoneInterests, id)
			f.bury(func() { f.goneInterests[id] = f.sequence })
			continue
		}
		i.told = f.sequence
		room -= namedBytes + i.Size()
		out.Interests = append(out.Interests, i.Interest)
	}
	return room
}

// entitiesInto fills a record with entities, and returns how much room is left.
func (f *Feed) entitiesInto(out *wire.Up, room int) int {
	refs := slices.SortedFunc(maps.Keys(f.dirtyEntities), func(a, b wire.Ref) int {
		if c := strings.Compare(string(a.Kind)+"\n"+a.Namespace, string(b.Kind)+"\n"+b.Namespace); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, ref := range refs {
		if room <= 0 {
			break
		}
		room -= namedBytes
		delete(f.dirtyEntities, ref)
		e := f.entities.of(ref)
		if e == nil {
			out.Gone = append(out.Gone, ref)
			f.bury(func() { f.gone[ref] = f.sequence })
			continue
		}
		e.told = f.sequence
		told := wire.Entity{Ref: ref, Labels: f.tell(out, e.set, &room), Addresses: e.addresses, Ports: e.ports, Account: e.account}
		room -= 50*len(told.Addresses) + 100*len(told.Ports)
		out.Entities = append(out.Entities, told)
	}
	f.many = f.many || len(refs) > manyEntities
	if f.many && len(f.dirtyEntities) == 0 { // a map does not shrink
		f.dirtyEntities, f.many = map[wire.Ref]struct{}{}, false
	}
	return room
}

// manyEntities are so many that the room for them is given back.
const manyEntities = 1000

// tell returns the number of a set, and tells what it is if that was not told.
func (f *Feed) tell(out *wire.Up, s *labelSet, room *int) int {
	if s == nil {
		return 0
	}
	if s.told == 0 {
		s.told = f.sequence
		*room -= len(s.text)
		out.LabelSets = append(out.LabelSets, wire.LabelSet{ID: s.id, Labels: s.labels})
	}
	return s.id
}
