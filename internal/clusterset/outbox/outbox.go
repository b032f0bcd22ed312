// Package outbox decides what a hub sends one member in one stream: policies, the remote groups
// that they name, and the groups that the member has asked for.
//
// It owns what was sent, and computes the difference to what there is. A group is sent before the
// policies that name it, and removed after them. The members that another cluster has in a group
// are sent only once that cluster has reported, or its last report is on record; so a cluster that
// has not reported yet never looks empty.
//
// Everything here is pure. An Outbox is not safe for concurrent use.
package outbox

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// View is what there is, at one moment. A union.Union is one.
type View interface {
	// Part is what a cluster has in a group, sorted; the same list while nothing has changed.
	Part(group, cluster string) []string
	// Members are all clusters, sorted, and which of them have been heard.
	Members() (names []string, heard map[string]bool)
	// Recalled reports whether what is known of a cluster that has not been heard is from a record.
	Recalled(cluster string) bool
	// Expired reports whether what a cluster has in a group does not count for the member: because
	// the cluster has been silent for too long, or because the member would not see it as what it
	// is.
	Expired(group, cluster string) bool
}

// Wanted is what there is to be told.
type Wanted struct {
	// Policies are those for the member by uid; a policy that has changed is another value.
	Policies map[string]*wire.Policy
	// Asked are the groups that the member has asked for, as they are answered but for the clusters
	// that are unheard.
	Asked map[string]wire.Told
}

// mostBytes is about how long a record becomes.
const mostBytes = 128 << 10

type key struct{ group, cluster string }

// Outbox is what was sent to one member.
type Outbox struct {
	self string
	sent map[key][]string
	// open are the parts of which the rest is to follow.
	open     map[key]bool
	policies map[string]*wire.Policy
	groups   map[string]bool
	// told are the answers to what the member has asked for.
	told   map[string]wire.Told
	synced bool
	// unheard are those that had not been heard when all else had been told: of them the member may
	// know something, which even an empty part replaces.
	unheard map[string]bool
	// recalled are the parts that were told from a record.
	recalled map[key]bool
	// former are groups that were told and are not any more: the member may still have what it was
	// told, which even an empty part replaces. anyFormer says that every group may be one.
	former    map[string]bool
	anyFormer bool
	// again are parts that the member may not have had, which even an empty part replaces.
	again map[key]bool
	// sequence is that of the last record, log what the last records have told, and floor the
	// sequence of the last one that is not in it.
	sequence, floor uint64
	log             []entry
	logged          int
}

// entry is what one record has told.
type entry struct {
	sequence uint64
	parts    []key
	policies []string
	answers  []string
	sync     bool
}

// mostLog is how many records are remembered, mostLogged how many parts of groups in them.
const mostLog, mostLogged = 256, 50_000

// mostFormer bounds the groups that are remembered though they are not told any more.
const mostFormer = 10_000

// New returns an Outbox for a member that has received nothing.
func New(self string) *Outbox {
	return &Outbox{
		self: self, sent: map[key][]string{}, open: map[key]bool{}, policies: map[string]*wire.Policy{}, groups: map[string]bool{},
		told: map[string]wire.Told{}, unheard: map[string]bool{}, recalled: map[key]bool{}, former: map[string]bool{}, again: map[key]bool{},
	}
}

// Synced reports whether all that there was to begin with has been told.
func (o *Outbox) Synced() bool { return o.synced }

// Has reports whether a policy was sent.
func (o *Outbox) Has(uid string) bool { return o.policies[uid] != nil }

// Ask makes a group be told and answered anew, as a whole: the member has asked for it, and may
// have nothing of it any more.
func (o *Outbox) Ask(group string) {
	delete(o.told, group)
	o.forget(group)
}

// Resume goes on in a new stream after the records up to heard, which the member has had: what came
// after them is told again, as a whole. It reports false if that is not known any more.
func (o *Outbox) Resume(heard uint64) bool {
	if heard > o.sequence || heard < o.floor {
		return false
	}
	for _, e := range o.log {
		if e.sequence <= heard {
			continue
		}
		for _, k := range e.parts {
			delete(o.sent, k)
			delete(o.open, k)
			delete(o.recalled, k)
			o.again[k] = true
		}
		for _, uid := range e.policies {
			o.policies[uid] = &wire.Policy{} // another one than any that is wanted
		}
		for _, id := range e.answers {
			delete(o.told, id)
		}
		o.synced = o.synced && !e.sync
	}
	return true
}

// Next returns the next record to tell; nil if there is none.
func (o *Outbox) Next(v View, all Wanted) *wire.Down {
	out := o.next(v, all)
	if out == nil {
		return nil
	}
	o.sequence++
	out.Sequence = o.sequence
	e := entry{sequence: o.sequence, sync: out.Sync != nil, policies: out.GonePolicies}
	for i := range out.Parts {
		e.parts = append(e.parts, key{out.Parts[i].Group, out.Parts[i].Cluster})
	}
	for i := range out.Policies {
		e.policies = append(e.policies, out.Policies[i].UID)
	}
	for i := range out.Told {
		e.answers = append(e.answers, out.Told[i].Group)
	}
	o.log, o.logged = append(o.log, e), o.logged+len(e.parts)
	drop := 0
	for len(o.log)-drop > mostLog || o.logged > mostLogged && drop < len(o.log) {
		o.floor, o.logged = o.log[drop].sequence, o.logged-len(o.log[drop].parts)
		drop++
	}
	if drop > 0 {
		o.log = slices.Clone(o.log[drop:])
	}
	return out
}

func (o *Outbox) next(v View, all Wanted) *wire.Down {
	out, room := &wire.Down{}, mostBytes
	names, heard := v.Members()
	wanted, groups := all.Policies, all.groups()
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		for _, cluster := range names {
			expired := v.Expired(group, cluster)
			if cluster == o.self || !heard[cluster] && !v.Recalled(cluster) && !expired {
				continue
			}
			if room <= 0 {
				return out
			}
			k, now, recalled := key{group, cluster}, v.Part(group, cluster), !heard[cluster]
			if expired {
				now, recalled = nil, false
				if _, told := o.sent[k]; !told {
					o.unheard[cluster] = true // the member may have something
				}
			}
			o.part(out, &room, k, now, recalled)
		}
		o.groups[group] = true
	}
	o.left(out, &room, groups, names)
	for _, uid := range slices.Sorted(maps.Keys(wanted)) {
		if room <= 0 {
			return out
		}
		if p := wanted[uid]; o.policies[uid] != p {
			o.policies[uid] = p
			out.Policies = append(out.Policies, *p)
			room -= size(p)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(o.policies)) {
		if wanted[uid] == nil {
			delete(o.policies, uid)
			out.GonePolicies = append(out.GonePolicies, uid)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(o.groups)) {
		if !groups[group] {
			o.forget(group)
		}
	}
	if room > 0 {
		o.answer(out, all.Asked, names, heard)
	}
	if room <= 0 || len(out.Told)+len(out.Parts)+len(out.Policies)+len(out.GonePolicies) > 0 {
		return out
	}
	if !o.synced {
		o.synced = true
		out.Sync = o.sync(names, heard)
		return out
	}
	return nil
}

// groups are all that are to be told.
func (w *Wanted) groups() map[string]bool {
	out := map[string]bool{}
	for _, p := range w.Policies {
		for _, g := range p.Groups {
			out[g] = true
		}
	}
	for id := range w.Asked {
		if !w.Asked[id].Refused {
			out[id] = true
		}
	}
	return out
}

// answer tells what has become of what the member has asked for. All parts have been told.
func (o *Outbox) answer(out *wire.Down, asked map[string]wire.Told, names []string, heard map[string]bool) {
	for _, id := range slices.Sorted(maps.Keys(asked)) {
		now, was := asked[id], o.told[id]
		if _, told := o.told[id]; told && now.Reason == was.Reason && now.Message == was.Message && now.Refused == was.Refused {
			continue
		}
		o.told[id] = now
		now.Unheard = o.unheardOf(names, heard)
		out.Told = append(out.Told, now)
	}
	maps.DeleteFunc(o.told, func(id string, _ wire.Told) bool { _, still := asked[id]; return !still })
}

func (o *Outbox) sync(names []string, heard map[string]bool) *wire.Sync {
	return &wire.Sync{Policies: slices.Sorted(maps.Keys(o.policies)), Unheard: o.unheardOf(names, heard)}
}

// unheardOf are the clusters of which the member may know something that nobody has told here.
func (o *Outbox) unheardOf(names []string, heard map[string]bool) []string {
	var out []string
	for _, name := range names {
		if !heard[name] {
			out = append(out, name)
			o.unheard[name] = true
		}
	}
	return out
}

func size(p *wire.Policy) int {
	n := len(p.Object) + 200 + 40*len(p.Groups)
	for _, needed := range p.Needs {
		n += len(needed)
	}
	return n
}

// left tells that clusters that are no more have nothing.
func (o *Outbox) left(out *wire.Down, room *int, groups map[string]bool, names []string) {
	told := slices.AppendSeq(slices.Collect(maps.Keys(o.sent)), maps.Keys(o.again))
	slices.SortFunc(told, compareKeys)
	for _, k := range slices.Compact(told) {
		if groups[k.group] && !slices.Contains(names, k.cluster) {
			delete(o.again, k)
			delete(o.sent, k)
			delete(o.open, k)
			delete(o.recalled, k)
			out.Parts = append(out.Parts, wire.Part{Group: k.group, Cluster: k.cluster, Whole: true})
			*room -= 100
		}
	}
}

func compareKeys(a, b key) int {
	return slices.Compare([]string{a.group, a.cluster}, []string{b.group, b.cluster})
}

func (o *Outbox) forget(group string) {
	delete(o.groups, group)
	if o.former[group] = true; len(o.former) > mostFormer {
		o.anyFormer = true
		clear(o.former)
	}
	maps.DeleteFunc(o.sent, func(k key, _ []string) bool { return k.group == group })
	maps.DeleteFunc(o.open, func(k key, _ bool) bool { return k.group == group })
	maps.DeleteFunc(o.again, func(k key, _ bool) bool { return k.group == group })
	maps.DeleteFunc(o.recalled, func(k key, _ bool) bool { return k.group == group })
}

// part tells what is new in one part, as far as there is room. What was told of it is kept, so that
// the rest is told next. What was told from a record is told anew, as a whole, when the cluster is
// heard, because the member may not have taken it.
func (o *Outbox) part(out *wire.Down, room *int, k key, now []string, recalled bool) {
	if o.recalled[k] && !recalled {
		delete(o.sent, k)
		delete(o.open, k)
		delete(o.recalled, k)
		o.unheard[k.cluster] = true
	}
	was, told := o.sent[k]
	if same(was, now) && (told || len(now) == 0 && !o.unheard[k.cluster] && !o.anyFormer && !o.former[k.group] && !o.again[k]) {
		return
	}
	delete(o.again, k)
	p := wire.Part{Group: k.group, Cluster: k.cluster, Whole: !told, Recalled: recalled}
	if recalled {
		o.recalled[k] = true
	}
	*room -= 100
	// Both are sorted: what is in one only is the difference.
	next, i, j := make([]string, 0, len(now)), 0, 0
	for i < len(was) || j < len(now) {
		switch {
		case j == len(now) || i < len(was) && was[i] < now[j]:
			if *room <= 0 {
				next = append(next, was[i])
			} else {
				p.Remove = append(p.Remove, was[i])
				*room -= len(was[i]) + 3
			}
			i++
		case i == len(was) || now[j] < was[i]:
			if *room > 0 {
				p.Add = append(p.Add, now[j])
				next = append(next, now[j])
				*room -= len(now[j]) + 3
			}
			j++
		default:
			next = append(next, now[j])
			i, j = i+1, j+1
		}
	}
	if p.More = *room <= 0; !p.More {
		next = now // the same list, so that it is not compared again
	}
	o.sent[k] = next
	if len(p.Add)+len(p.Remove) == 0 && told && !o.open[k] {
		return
	}
	if delete(o.open, k); p.More {
		o.open[k] = true
	}
	out.Parts = append(out.Parts, p)
}

// same reports whether two lists are one.
func same(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
