package copies

import (
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

const (
	// mostRealizations is how many go into one record.
	mostRealizations = 200
	// mostCounted is about how many bytes what was counted has in one record, but for the last
	// policy.
	mostCounted = 128 << 10
)

// Ledger remembers the policies of the hub by the uids of their sources. See the package comment;
// use New.
type Ledger struct {
	// wanted are the policies that the hub has sent in this process; listed says that they are all.
	wanted map[string]*wire.Policy
	listed bool
	// accepted is the generation of the Membership by which policies were judged last.
	accepted int64
	// dirty are the policies to write; outcome is what became of those that are not as wanted.
	dirty   map[string]bool
	outcome map[string]wire.Realization
	// copies are the copies, generations their generations, and seen what is known of them.
	// statuses are how far copies without status are realized, by their uid here.
	copies      map[string]client.Object
	generations map[string]int64
	seen        map[string]wire.Realization
	statuses    map[types.UID]v1beta1.NetworkPolicyStatus
	// made are the sources of the ClusterGroups that policies name besides the hub's, where an
	// Antrea Controller computes the policies; elsewhere nil.
	made map[string][]string
	// retell are the policies of which a report is due.
	retell map[string]bool
	// counted are the counters that were sent in this stream, and uncounted the ones to be sent.
	counted   map[string]wire.Counted
	uncounted []wire.Counted
}

// New returns an empty Ledger. With translated an Antrea Controller computes the policies, and a
// copy is not as wanted before Made was called for it.
func New(translated bool) *Ledger {
	l := &Ledger{
		wanted: map[string]*wire.Policy{}, dirty: map[string]bool{}, outcome: map[string]wire.Realization{}, copies: map[string]client.Object{},
		generations: map[string]int64{}, seen: map[string]wire.Realization{}, statuses: map[types.UID]v1beta1.NetworkPolicyStatus{}, retell: map[string]bool{},
	}
	if translated {
		l.made = map[string][]string{}
	}
	return l
}

// Want takes over a policy that the hub has sent.
func (l *Ledger) Want(p *wire.Policy) { l.wanted[p.UID], l.dirty[p.UID] = p, true }

// Unwant takes over that the hub does not want a policy any more.
func (l *Ledger) Unwant(uid string) {
	delete(l.wanted, uid)
	l.dirty[uid] = true
}

// Synced takes over that the hub has sent all policies, which are those with these uids.
func (l *Ledger) Synced(uids []string) {
	for uid := range l.wanted {
		if !slices.Contains(uids, uid) {
			l.Unwant(uid)
		}
	}
	l.listed = true
}

// Listed reports whether all that the hub wants is known.
func (l *Ledger) Listed() bool { return l.listed }

// Wanted is what the hub wants of a policy; nil if it does not want it.
func (l *Ledger) Wanted(uid string) *wire.Policy { return l.wanted[uid] }

// Groups are the remote groups that wanted policies name, and those that are given.
func (l *Ledger) Groups(out []string) []string {
	for _, p := range l.wanted {
		for _, g := range p.Groups {
			if !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out
}

// Judge has all policies written again if the Membership, by which they are judged, is of another
// generation than last time.
func (l *Ledger) Judge(generation int64) {
	if l.accepted != generation { // more or less may be taken than before
		l.accepted = generation
		l.Rewrite()
	}
}

// Rewrite has all policies written again.
func (l *Ledger) Rewrite() {
	for uid := range l.wanted {
		l.dirty[uid] = true
	}
}

// Retry has a policy written again.
func (l *Ledger) Retry(uid string) { l.dirty[uid] = true }

// NamespaceCame has the policies written again that lacked their Namespace, and reports whether
// there are any.
func (l *Ledger) NamespaceCame() bool {
	found := false
	for uid, r := range l.outcome {
		if r.Reason == NoNamespace {
			l.dirty[uid], found = true, true
		}
	}
	return found
}

// TakeDirty returns the policies to write, sorted, and forgets that they are to be written.
func (l *Ledger) TakeDirty() []string {
	out := slices.Sorted(maps.Keys(l.dirty))
	clear(l.dirty)
	return out
}

// Made notes the sources of the ClusterGroups that a translated policy names besides the ones of
// the hub.
func (l *Ledger) Made(uid string, sources []string) { l.made[uid] = sources }

// Result notes what became of a policy; p is nil if it is not wanted any more. It reports whether
// the hub is to be told.
func (l *Ledger) Result(uid string, p *wire.Policy, err error) bool {
	before, was := l.outcome[uid]
	if p == nil {
		delete(l.made, uid)
	}
	if p == nil || err == nil {
		delete(l.outcome, uid)
	} else {
		r := wire.Realization{UID: uid, Generation: p.Generation, Phase: string(v1beta1.NetworkPolicyFailed), Reason: Rejected, Message: err.Error()}
		var known *Refusal
		if errors.As(err, &known) {
			r.Reason = known.Reason
		}
		r.Message = wire.Shortened(r.Message)
		l.outcome[uid] = r
	}
	after, is := l.outcome[uid]
	if was == is && before == after {
		return false
	}
	l.retell[uid] = true
	return true
}

// Refused are why policies are not as wanted, in the order of their uids.
func (l *Ledger) Refused() []string {
	var out []string
	for _, uid := range slices.Sorted(maps.Keys(l.outcome)) {
		out = append(out, l.outcome[uid].Message)
	}
	return out
}

// Sources are the generations of all that the hub wants here, by uid. It reports whether some of it
// is not understood or not translated.
func (l *Ledger) Sources() (wanted map[string]int64, behind bool) {
	wanted = map[string]int64{}
	for uid, p := range l.wanted {
		if l.outcome[uid].Reason == NotAccepted {
			continue
		}
		wanted[uid] = p.Generation
		needs, err := Needs(p)
		behind = behind || err != nil
		for _, o := range needs {
			wanted[source(o)] = SourceGeneration(o)
		}
		made, known := l.made[uid]
		behind = behind || l.made != nil && !known && l.outcome[uid].Reason != NoNamespace
		for _, source := range made {
			wanted[source] = 1
		}
	}
	return wanted, behind
}

// Copies is how many copies there are.
func (l *Ledger) Copies() int { return len(l.seen) }

// Hear takes over what has become of a copy. It reports whether the copy is to be written again: an
// edit is undone.
func (l *Ledger) Hear(o client.Object, gone bool) (edited bool) {
	uid := source(o)
	if uid == "" {
		return false
	}
	if edited = l.wanted[uid] != nil && (gone || l.changedBySomebody(o, uid)); edited {
		l.dirty[uid] = true
	}
	if gone {
		delete(l.seen, uid)
		delete(l.statuses, o.GetUID())
		delete(l.generations, uid)
		delete(l.copies, uid)
		delete(l.counted, uid)
		return edited
	}
	l.copies[uid] = o
	l.noteRealized(o, uid)
	return edited
}

// Status takes over the status of a copy that does not show it, and reports whether the copy is
// known.
func (l *Ledger) Status(o client.Object, s v1beta1.NetworkPolicyStatus) bool {
	uid := source(o)
	if uid == "" {
		return false
	}
	l.statuses[o.GetUID()] = s
	known := l.copies[uid]
	if known == nil || known.GetUID() != o.GetUID() {
		return false
	}
	l.noteRealized(known, uid)
	return true
}

// noteRealized notes how far a copy is realized.
func (l *Ledger) noteRealized(o client.Object, uid string) {
	if r := realizationOf(o, l.statuses[o.GetUID()]); l.seen[uid] != r {
		l.seen[uid] = r
		l.retell[uid] = true
	}
}

// changedBySomebody reports whether a copy is of another generation than that which was seen last.
func (l *Ledger) changedBySomebody(o client.Object, uid string) bool {
	before, known := l.generations[uid]
	l.generations[uid] = o.GetGeneration()
	return known && before != o.GetGeneration()
}

// Begin begins a stream, in which the hub knows nothing yet of what has become of policies and was
// counted.
func (l *Ledger) Begin() {
	l.counted, l.uncounted = map[string]wire.Counted{}, nil
	for uid := range l.seen {
		l.retell[uid] = true
	}
	for uid := range l.outcome {
		l.retell[uid] = true
	}
}

// NextRealized is what to report next of what has become of policies. It reports whether anything
// was due, if only of policies that are gone.
func (l *Ledger) NextRealized() (out []wire.Realization, due bool) {
	due = len(l.retell) > 0
	for uid := range l.retell {
		delete(l.retell, uid)
		r, wrong := l.outcome[uid]
		if !wrong {
			r = l.seen[uid]
		}
		if r.UID != "" {
			out = append(out, r)
		}
		if len(out) == mostRealizations {
			break
		}
	}
	return out, due
}

// Count finds out for which copies something was counted that the hub does not know.
func (l *Ledger) Count(counted func(o client.Object) (wire.Counted, bool)) {
	l.uncounted = nil
	for _, uid := range slices.Sorted(maps.Keys(l.copies)) {
		c, is := counted(l.copies[uid])
		c.UID = uid
		if is && !equality.Semantic.DeepEqual(c, l.counted[uid]) && (c.Count != wire.Count{} || l.counted[uid].UID != "") {
			l.uncounted = append(l.uncounted, c)
		}
	}
}

// NextCounted is what to report next of what was counted; nil if there is nothing.
func (l *Ledger) NextCounted() []wire.Counted {
	size, n := 0, 0
	for ; n < len(l.uncounted) && size < mostCounted; n++ {
		c := &l.uncounted[n]
		size += 200
		for i := range c.Rules {
			size += 100 + len(c.Rules[i].Name)
		}
		l.counted[c.UID] = *c
	}
	if n == 0 {
		return nil
	}
	out := l.uncounted[:n]
	l.uncounted = l.uncounted[n:]
	return out
}

// realizationOf is the status of a copy, for the hub. A copy of a kind that has no status has the
// one that is given.
func realizationOf(o client.Object, given v1beta1.NetworkPolicyStatus) wire.Realization {
	r := wire.Realization{UID: source(o), Generation: SourceGeneration(o), Phase: string(v1beta1.NetworkPolicyPending)}
	var s *v1beta1.NetworkPolicyStatus
	switch o := o.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		s = &o.Status
	case *v1beta1.NetworkPolicy:
		s = &o.Status
	default:
		s = &given
		if s.Phase == "" || s.CurrentNodesRealized == 0 && s.DesiredNodesRealized > 0 && s.Phase != v1beta1.NetworkPolicyFailed {
			// Antrea's agents report nothing of such policies.
			r.Phase, r.Desired = v1beta1.PhaseUnknown, s.DesiredNodesRealized
			if r.Desired > 0 {
				r.Message = "no enforcer there has reported it"
			}
			return r
		}
	}
	if s.ObservedGeneration == o.GetGeneration() && s.Phase != "" {
		r.Phase, r.Message, r.Realized, r.Desired = string(s.Phase), wire.Shortened(s.Message), s.CurrentNodesRealized, s.DesiredNodesRealized
	}
	return r
}
