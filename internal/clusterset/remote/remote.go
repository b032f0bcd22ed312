// Package remote is what a member knows of the workloads of other clusters: the remote groups that
// the hub has sent, and the entities that they make in the member's own engine.
//
// It owns these groups. What the hub has not taken back stays: a stream that ends changes nothing,
// and a new one that begins is compared with what is there when it has been received as a whole.
//
// Everything here is pure. A Book is not safe for concurrent use.
package remote

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
)

// MostMembers bounds what a member holds of one group.
const MostMembers = 200_000

// Book holds remote groups.
type Book struct {
	// groups are the members by group and cluster.
	groups map[string]map[string]map[string]struct{}
	// holders says in which groups a member is, and of how many clusters there. texts are the
	// members that have the same addresses and named ports as well.
	holders map[string]holder
	texts   map[string][]string
	// numbers are what stands for groups in holders, and names the other way round.
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
		groups: map[string]map[string]map[string]struct{}{}, holders: map[string]holder{}, texts: map[string][]string{},
		numbers: map[string]uint32{}, names: map[uint32]string{},
		expires: expires, pending: map[partKey]*pendingPart{}, touched: map[string]struct{}{}, changed: map[string]struct{}{},
	}
}

// hold is that a member is in a group, by its number, and in how many clusters.
type hold struct{ group, clusters uint32 }

// holder is in which groups a member is: mostly in one. There are many of them.
type holder struct {
	first hold
	more  *[]hold
}

// change counts a cluster more or less in which the member is in a group, and reports whether it is
// in any group then.
func (h *holder) change(group uint32, by int) bool {
	all := []hold{}
	if h.first.clusters > 0 {
		all = append(all, h.first)
	}
	if h.more != nil {
		all = append(all, *h.more...)
	}
	i := slices.IndexFunc(all, func(o hold) bool { return o.group == group })
	if i < 0 {
		i, all = len(all), append(all, hold{group: group})
	}
	if all[i].clusters = uint32(int(all[i].clusters) + by); all[i].clusters == 0 {
		all = slices.Delete(all, i, i+1)
	}
	*h = holder{}
	if len(all) > 0 {
		h.first = all[0]
	}
	if len(all) > 1 {
		more := slices.Clone(all[1:])
		h.more = &more
	}
	return len(all) > 0
}

// groupsOf calls f for each group that a member is in.
func (b *Book) groupsOf(text string, f func(group string)) {
	h := b.holders[text]
	if h.first.clusters > 0 {
		f(b.names[h.first.group])
	}
	if h.more != nil {
		for _, o := range *h.more {
			f(b.names[o.group])
		}
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
	if next.whole {
		for text := range now {
			if !next.in[text] {
				b.remove(p.Group, p.Cluster, text)
			}
		}
	}
	for text, in := range next.in {
		if in {
			b.add(p.Group, p.Cluster, text)
		} else {
			b.remove(p.Group, p.Cluster, text)
		}
	}
	b.know(p.Group)
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
		b.groups[group] = map[string]map[string]struct{}{}
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

func (b *Book) add(group, cluster, text string) {
	b.know(group)
	part := b.groups[group][cluster]
	if part == nil {
		part = map[string]struct{}{}
		b.groups[group][cluster] = part
	}
	if _, there := part[text]; there {
		return
	}
	part[text] = struct{}{}
	h, known := b.holders[text]
	if at := addressesOf(text); !known && at != text {
		b.texts[at] = append(b.texts[at], text)
	}
	h.change(b.numbers[group], 1)
	b.holders[text] = h
	b.note(group, text)
}

func (b *Book) remove(group, cluster, text string) {
	part := b.groups[group][cluster]
	if _, there := part[text]; !there {
		return
	}
	if delete(part, text); len(part) == 0 {
		delete(b.groups[group], cluster)
	}
	h := b.holders[text]
	if h.change(b.numbers[group], -1) {
		b.holders[text] = h
	} else {
		delete(b.holders, text)
		if at := addressesOf(text); at != text {
			b.texts[at] = slices.DeleteFunc(b.texts[at], func(o string) bool { return o == text })
			if len(b.texts[at]) == 0 {
				delete(b.texts, at)
			}
		}
	}
	b.note(group, text)
}

func (b *Book) note(group, text string) {
	b.touched[addressesOf(text)] = struct{}{}
	b.changed[group] = struct{}{}
}

// addressesOf is what tells members apart for those who enforce.
func addressesOf(text string) string {
	at, _, _ := strings.Cut(text, ";")
	return at
}

// Forget drops a group.
func (b *Book) Forget(group string) {
	for cluster, part := range b.groups[group] {
		for text := range part {
			b.remove(group, cluster, text)
		}
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
// but for those of clusters that were not heard of.
func (b *Book) Told(group string, unheard []string, sent map[string]bool) {
	b.Know(group)
	for cluster, part := range b.groups[group] {
		if cluster == own || sent[cluster] || slices.Contains(unheard, cluster) {
			continue
		}
		for text := range part {
			b.remove(group, cluster, text)
		}
	}
}

// Own makes what this cluster itself has in a group, as one that serves an exported Service, these
// members. No hub says it, and it does not expire.
func (b *Book) Own(group string, members []string) {
	if !isID(group) {
		return
	}
	b.know(group)
	stay := map[string]bool{}
	for _, text := range members {
		stay[text] = true
		b.add(group, own, text)
	}
	for text := range b.groups[group][own] {
		if !stay[text] {
			b.remove(group, own, text)
		}
	}
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
	for text := range b.holders {
		b.groupsOf(text, func(group string) {
			if b.expires(group) {
				b.touched[addressesOf(text)] = struct{}{}
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
	// New ones, because those of a listing are large.
	b.touched, b.changed = map[string]struct{}{}, map[string]struct{}{}
	return out, groups
}

// is reports whether there is a member with these addresses.
func (b *Book) is(at string) bool {
	_, plain := b.holders[at]
	return plain || len(b.texts[at]) > 0
}

// Entities are all that there are, in order.
func (b *Book) Entities() []policy.Entity {
	all := slices.Collect(maps.Keys(b.texts))
	for text := range b.holders {
		if addressesOf(text) == text && len(b.texts[text]) == 0 {
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
	if _, plain := b.holders[at]; plain {
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
		b.groupsOf(text, func(group string) {
			_, ours := b.groups[group][own][text]
			if ours || !b.expired || !b.expires(group) {
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
		content[cluster] = slices.Sorted(maps.Keys(part))
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
