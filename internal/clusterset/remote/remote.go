// Package remote holds what a member knows of the workloads of other clusters: the remote groups
// that the hub has sent, and their entities in the member's own engine.
//
// It owns these groups. A group stays until the hub takes it back: the end of a stream changes
// nothing, and a new stream is compared with the groups only when it has been received as a whole.
//
// Everything here is pure. A Book is not safe for concurrent use.
package remote

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
)

// MostMembers bounds what a member holds of one group.
const MostMembers = 200_000

// Book holds remote groups.
type Book struct {
	// groups are the members by group and cluster, sorted.
	groups map[string]map[string][]number
	// within is the group that a member is in; for a member in more than one it is inSeveral, and
	// several has them. texts are the members that have the same addresses and named ports as well.
	within  map[number]uint32
	several map[number][]uint32
	texts   map[string][]string
	// ids are the numbers of the members that are not an IPv4 address alone, others the members by
	// these; free are numbers that none has any more.
	ids    map[string]number
	others map[number]string
	free   []number
	// numbers are what stands for groups in within, and names the other way round.
	numbers map[string]uint32
	names   map[uint32]string
	last    uint32
	// pending are changes of which the rest is to follow.
	pending map[partKey]*pendingPart
	// before are the groups that were there when the stream began.
	before map[string]bool
	// expires tells the groups that expire, and expired that they have.
	expires func(group string) bool
	expired bool
	touched map[string]struct{} // addresses
	changed map[string]struct{} // groups
}

// New returns an empty Book. Expires tells the groups whose members do not count after Expire.
func New(expires func(group string) bool) *Book {
	return &Book{
		groups: map[string]map[string][]number{}, within: map[number]uint32{}, several: map[number][]uint32{}, texts: map[string][]string{},
		ids: map[string]number{}, others: map[number]string{}, numbers: map[string]uint32{}, names: map[uint32]string{},
		expires: expires, pending: map[partKey]*pendingPart{}, touched: map[string]struct{}{}, changed: map[string]struct{}{},
	}
}

// number is a member, in little space: there are many. An IPv4 address alone, as most are, is its
// own number. Any other member has one from firstOther on, where the addresses are multicast
// addresses: no member is one of these alone.
type number uint32

const firstOther number = 224 << 24

// plain is the number of an IPv4 address alone; false for any other member.
func plain(text string) (number, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is4() {
		return 0, false
	}
	raw := a.As4()
	n := number(binary.BigEndian.Uint32(raw[:]))
	return n, n < firstOther
}

// known is the number of a member; false if it has none.
func (b *Book) known(text string) (number, bool) {
	if n, is := plain(text); is {
		return n, true
	}
	n, is := b.ids[text]
	return n, is
}

// numberOf is the number of a member, which it gets if it has none.
func (b *Book) numberOf(text string) number {
	n, is := b.known(text)
	if is {
		return n
	}
	if k := len(b.free); k > 0 {
		n, b.free = b.free[k-1], b.free[:k-1]
	} else {
		n = firstOther + number(len(b.others))
	}
	b.ids[text], b.others[n] = n, text
	return n
}

// text is the member that has a number.
func (b *Book) text(n number) string {
	if n >= firstOther {
		return b.others[n]
	}
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}).String()
}

// release takes back the number of a member that is in no group.
func (b *Book) release(n number) {
	if n >= firstOther {
		delete(b.ids, b.others[n])
		delete(b.others, n)
		b.free = append(b.free, n)
	}
}

// inSeveral stands for more than one group. No group has this number.
const inSeveral uint32 = 0

// enter notes that a member is in a group in which it was not.
func (b *Book) enter(n number, group uint32) {
	switch at, is := b.within[n]; {
	case !is:
		b.within[n] = group
		if text := b.text(n); addressesOf(text) != text {
			b.texts[addressesOf(text)] = append(b.texts[addressesOf(text)], text)
		}
	case at == inSeveral:
		b.several[n] = append(b.several[n], group)
	default:
		b.within[n], b.several[n] = inSeveral, []uint32{at, group}
	}
}

// leave notes that a member is not in a group any more.
func (b *Book) leave(n number, group uint32) {
	if b.within[n] == inSeveral {
		rest := slices.DeleteFunc(b.several[n], func(o uint32) bool { return o == group })
		if b.several[n] = rest; len(rest) == 1 {
			b.within[n] = rest[0]
			delete(b.several, n)
		}
		return
	}
	text := b.text(n)
	delete(b.within, n)
	b.release(n)
	if at := addressesOf(text); at != text {
		b.texts[at] = slices.DeleteFunc(b.texts[at], func(o string) bool { return o == text })
		if len(b.texts[at]) == 0 {
			delete(b.texts, at)
		}
	}
}

// groupsOf calls f for each group that a member is in.
func (b *Book) groupsOf(n number, f func(group string)) {
	at, is := b.within[n]
	switch {
	case !is:
	case at == inSeveral:
		for _, group := range b.several[n] {
			f(b.names[group])
		}
	default:
		f(b.names[at])
	}
}

type partKey struct{ group, cluster string }

// pendingPart is a change as far as it has come: what is added, and what is not.
type pendingPart struct {
	whole bool
	in    map[string]bool
}

// Begin begins a stream: of changes that an earlier one has left half told nothing counts.
func (b *Book) Begin() {
	clear(b.pending)
	b.before = make(map[string]bool, len(b.groups))
	for group := range b.groups {
		b.before[group] = true
	}
}

// Apply takes over a change of one part of a group. It fails for what is no change; then nothing of
// it is done.
func (b *Book) Apply(p *wire.Part) error {
	if !isID(p.Group) || p.Cluster == "" || len(p.Cluster) > 63 {
		return errors.New("a part of no group")
	}
	if err := checkMembers(p.Add); err != nil {
		return fmt.Errorf("group %s: %w", p.Group, err)
	}
	if p.Recalled && b.before[p.Group] {
		return nil // what is here came from the cluster, and is as new or newer
	}
	k := partKey{p.Group, p.Cluster}
	next := b.pending[k]
	if next == nil || p.Whole {
		next = &pendingPart{p.Whole, map[string]bool{}}
	}
	now := b.groups[p.Group][p.Cluster]
	if len(now)+len(next.in)+len(p.Add)+len(p.Remove) > 2*MostMembers {
		return fmt.Errorf("group %s: more than %d members", p.Group, MostMembers)
	}
	for _, text := range p.Add {
		next.in[text] = true
	}
	for _, text := range p.Remove {
		next.in[text] = false
	}
	if p.More {
		b.pending[k] = next
		return nil
	}
	delete(b.pending, k)
	gone, members := map[number]bool{}, make([]number, 0, len(next.in))
	for text, in := range next.in {
		if in {
			members = append(members, b.numberOf(text))
		} else if n, known := b.known(text); known {
			gone[n] = true
		}
	}
	if !next.whole {
		for _, n := range now {
			if !gone[n] {
				members = append(members, n)
			}
		}
	}
	b.become(p.Group, p.Cluster, members)
	return nil
}

func checkMembers(all []string) error {
	for _, text := range all {
		if _, err := wire.ParseRemoteMember(text); err != nil {
			return err
		}
	}
	return nil
}

func isID(id string) bool {
	return len(id) > 1 && len(id) <= 63 && id[0] == 'g' && strings.Trim(id[1:], "0123456789abcdef") == ""
}

// know notes a group, though it may be empty.
func (b *Book) know(group string) {
	if b.groups[group] == nil {
		b.groups[group] = map[string][]number{}
		b.changed[group] = struct{}{}
		b.last++
		b.numbers[group], b.names[b.last] = b.last, group
	}
}

// Know makes a group known, empty if nothing else was told of it.
func (b *Book) Know(group string) {
	if isID(group) {
		b.know(group)
	}
}

// become makes these the members that a cluster has in a group.
func (b *Book) become(group, cluster string, next []number) {
	b.know(group)
	slices.Sort(next)
	next = slices.Compact(next)
	was := b.groups[group][cluster]
	if delete(b.groups[group], cluster); len(next) > 0 {
		b.groups[group][cluster] = slices.Clone(next)
	}
	id := b.numbers[group]
	for len(was)+len(next) > 0 {
		switch {
		case len(was) == 0 || len(next) > 0 && next[0] < was[0]:
			b.note(group, b.text(next[0]))
			if !b.elsewhere(group, cluster, next[0]) {
				b.enter(next[0], id)
			}
			next = next[1:]
		case len(next) == 0 || was[0] < next[0]:
			b.note(group, b.text(was[0]))
			if !b.elsewhere(group, cluster, was[0]) {
				b.leave(was[0], id)
			}
			was = was[1:]
		default:
			was, next = was[1:], next[1:]
		}
	}
}

// elsewhere reports whether another cluster has a member in a group, too.
func (b *Book) elsewhere(group, but string, n number) bool {
	for cluster, part := range b.groups[group] {
		if cluster != but && has(part, n) {
			return true
		}
	}
	return false
}

func has(part []number, n number) bool {
	_, is := slices.BinarySearch(part, n)
	return is
}

func (b *Book) note(group, text string) {
	b.touched[addressesOf(text)] = struct{}{}
	b.changed[group] = struct{}{}
}

// addressesOf is what distinguishes members for enforcers.
func addressesOf(text string) string {
	at, _, _ := strings.Cut(text, ";")
	return at
}

// Forget drops a group.
func (b *Book) Forget(group string) {
	for cluster := range b.groups[group] {
		b.become(group, cluster, nil)
	}
	if _, known := b.groups[group]; known {
		delete(b.names, b.numbers[group])
		delete(b.numbers, group)
		delete(b.groups, group)
		delete(b.before, group)
		b.changed[group] = struct{}{}
	}
}

// Sync takes over that a listing has ended. sent are the parts that it brought; groups are those
// that are wanted, of others nothing changes.
func (b *Book) Sync(s *wire.Sync, groups []string, sent map[string]map[string]bool) {
	for _, group := range groups {
		b.Told(group, s.Unheard, sent[group])
	}
}

// Told takes over that all parts of one group have been told: parts that were not sent are empty,
// but for members in clusters that have not reported.
func (b *Book) Told(group string, unheard []string, sent map[string]bool) {
	b.Know(group)
	for cluster := range b.groups[group] {
		if cluster != own && !sent[cluster] && !slices.Contains(unheard, cluster) {
			b.become(group, cluster, nil)
		}
	}
}

// Own makes what this cluster itself has in a group, as one that serves an exported Service, these
// members. No hub says it, and it does not expire.
func (b *Book) Own(group string, members []string) {
	if !isID(group) {
		return
	}
	var next []number
	for _, text := range members {
		next = append(next, b.numberOf(text))
	}
	b.become(group, own, next)
}

// own is the name of this cluster's own part of a group.
const own = ""

// Empty takes everything out of a group that other clusters have there.
func (b *Book) Empty(group string) {
	if b.groups[group] != nil {
		b.Told(group, nil, nil)
	}
}

// Expire makes the members of groups that expire count no more, or again. They stay known.
func (b *Book) Expire(expired bool) {
	if b.expired == expired {
		return
	}
	b.expired = expired
	for n := range b.within {
		b.groupsOf(n, func(group string) {
			if b.expires(group) {
				b.touched[addressesOf(b.text(n))] = struct{}{}
			}
		})
	}
}

// Expired reports whether members of groups that expire do not count.
func (b *Book) Expired() bool { return b.expired }

// Groups returns the ids of all groups, sorted.
func (b *Book) Groups() []string { return slices.Sorted(maps.Keys(b.groups)) }

// Size is how many members a group has.
func (b *Book) Size(group string) int {
	n := 0
	for _, part := range b.groups[group] {
		n += len(part)
	}
	return n
}

// Knows reports whether a group is known, be it empty.
func (b *Book) Knows(group string) bool { return b.groups[group] != nil }

// Change is what became of entities: those to put, and those that are gone.
type Change struct {
	Put  []policy.Entity
	Gone []policy.EntityRef
}

// Take returns what has changed since the last time, in order: the entities, and the groups whose
// content is not what it was.
func (b *Book) Take() (Change, []string) {
	var out Change
	for _, at := range slices.Sorted(maps.Keys(b.touched)) {
		if !b.is(at) {
			out.Gone = append(out.Gone, policy.EntityRef{Kind: policy.KindRemote, Name: at})
			continue
		}
		out.Put = append(out.Put, b.entity(at))
	}
	groups := slices.Sorted(maps.Keys(b.changed))
	// New ones, because the objects of a listing are large.
	b.touched, b.changed = map[string]struct{}{}, map[string]struct{}{}
	return out, groups
}

// is reports whether there is a member with these addresses.
func (b *Book) is(at string) bool {
	return b.holds(at) || len(b.texts[at]) > 0
}

// holds reports whether a member is in any group.
func (b *Book) holds(text string) bool {
	n, known := b.known(text)
	_, is := b.within[n]
	return known && is
}

// Entities are all that there are, in order.
func (b *Book) Entities() []policy.Entity {
	all := slices.Collect(maps.Keys(b.texts))
	for n := range b.within {
		if text := b.text(n); addressesOf(text) == text && len(b.texts[text]) == 0 {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	out := make([]policy.Entity, 0, len(all))
	for _, at := range all {
		out = append(out, b.entity(at))
	}
	return out
}

// entity is what the members with these addresses make.
func (b *Book) entity(at string) policy.Entity {
	e := policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindRemote, Name: at}, Labels: map[string]string{}}
	texts := b.texts[at]
	if b.holds(at) {
		texts = append([]string{at}, texts...)
	}
	for _, text := range texts {
		m, err := wire.ParseRemoteMember(text)
		if err != nil {
			continue // it was one when it came
		}
		e.Addresses = m.Addresses
		for _, p := range m.Ports {
			port := policy.NamedPort{Name: p.Name, Protocol: policy.Protocol(p.Protocol), Port: p.Port}
			if !slices.Contains(e.Ports, port) {
				e.Ports = append(e.Ports, port)
			}
		}
		n, _ := b.known(text)
		b.groupsOf(n, func(group string) {
			if has(b.groups[group][own], n) || !b.expired || !b.expires(group) {
				e.Labels[group] = ""
			}
		})
	}
	slices.SortFunc(e.Ports, func(x, y policy.NamedPort) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(string(x.Protocol), string(y.Protocol)), cmp.Compare(x.Port, y.Port))
	})
	return e
}

// mostRecord bounds a record when it is read.
const mostRecord = 64 << 20

// Record returns a group as it is kept.
func (b *Book) Record(group string) ([]byte, error) {
	content := map[string][]string{}
	for cluster, part := range b.groups[group] {
		texts := make([]string, 0, len(part))
		for _, n := range part {
			texts = append(texts, b.text(n))
		}
		slices.Sort(texts)
		content[cluster] = texts
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	err := json.NewEncoder(z).Encode(content)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("keep group %s: %w", group, err)
	}
	return out.Bytes(), nil
}

// LoadText takes over what Record has returned, as objects hold it: in base64.
func (b *Book) LoadText(group, text string) error {
	record, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("the record of group %s: %w", group, err)
	}
	return b.Load(group, record)
}

// Load takes over what Record has returned.
func (b *Book) Load(group string, record []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(record))
	if err != nil {
		return fmt.Errorf("the record of group %s: %w", group, err)
	}
	content := map[string][]string{}
	if err := json.NewDecoder(io.LimitReader(z, mostRecord)).Decode(&content); err != nil {
		return fmt.Errorf("the record of group %s: %w", group, err)
	}
	for cluster, members := range content {
		if cluster == own {
			if err := checkMembers(members); err != nil {
				return fmt.Errorf("the record of group %s: %w", group, err)
			}
			b.Own(group, members)
			continue
		}
		if err := b.Apply(&wire.Part{Group: group, Cluster: cluster, Add: members}); err != nil {
			return fmt.Errorf("the record of group %s: %w", group, err)
		}
	}
	b.Know(group)
	return nil
}
