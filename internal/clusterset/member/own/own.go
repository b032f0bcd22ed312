// Package own asks the hub for the groups of other clusters that a member's own policies name.
//
// It owns what is asked for and what was answered: which interests the policies with the scope
// ClusterSet have, why some cannot be asked for, and what the hub has said of each group. It
// promises:
//
//   - A group is asked for as long as a valid policy names it.
//   - What the hub has answered stays while the hub is away. A refused group is empty for rules that
//     allow, because nobody keeps it current.
//   - Each group that is named has a note; an empty one says that all is well.
//
// Peers are not safe for concurrent use.
package own

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/clusterset/feed"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// What is told of policies before the hub has answered.
const (
	noteUnanswered = "the hub has not answered yet: workloads of other clusters are not in this peer"
	noteOldHub     = "the hub is of a version that does not answer this: upgrade it; workloads of other clusters are not in this peer"
	noteAlone      = "this cluster is in no set, or has left it: see nephele join"
)

// Peers are the groups that own policies name. See the package comment; use New.
type Peers struct {
	feed *feed.Feed
	book *remote.Book
	// notes are what the hub says of groups, untellable by policy why some cannot be asked for.
	notes      map[string]string
	untellable map[string]map[string]string
}

// New returns Peers that ask by a feed for what is kept in a book.
func New(f *feed.Feed, b *remote.Book) *Peers {
	return &Peers{feed: f, book: b, notes: map[string]string{}, untellable: map[string]map[string]string{}}
}

// Hear takes over a policy that may be this cluster's own. It returns the policy if it names groups
// now, and reports whether what is asked for has changed. A policy that is not valid changes
// nothing: the last valid version is enforced, so its groups stay.
func (n *Peers) Hear(o client.Object, gone bool) (names *policy.Policy, changed bool) {
	key := "a/" + o.GetNamespace() + "/" + o.GetName()
	var p policy.Policy
	switch o := o.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		if key = "c/" + o.Name; scoped(&o.Spec) {
			p = convert.ClusterNetworkPolicy(o)
		}
	case *v1beta1.NetworkPolicy:
		if scoped(&o.Spec) {
			p = convert.NetworkPolicy(o)
		}
	default:
		return nil, false
	}
	var all []wire.Interest
	if !gone && !p.Set && !convert.Staged(o) {
		all = peers.Interests(&p)
	}
	if len(all) > 0 {
		admission.Default(&p)
		if len(admission.ValidatePolicy(&p, map[string]int32{p.Tier: 0})) > 0 {
			return nil, false
		}
	}
	untellable := map[string]string{}
	all = slices.DeleteFunc(all, func(i wire.Interest) bool {
		err := i.Check()
		if err != nil {
			untellable[i.Group] = err.Error()
		}
		return err != nil
	})
	if len(all) > 0 {
		names = &p
	}
	changed = n.feed.PutInterests(key, all) || !maps.Equal(untellable, n.untellable[key])
	if n.untellable[key] = untellable; len(untellable) == 0 {
		delete(n.untellable, key)
	}
	return names, changed
}

// scoped reports whether rules have a peer of other clusters.
func scoped(s *v1beta1.NetworkPolicySpec) bool {
	for _, rules := range [][]v1beta1.Rule{s.Ingress, s.Egress} {
		for i := range rules {
			if slices.ContainsFunc(rules[i].ToServices, func(s v1beta1.PeerService) bool { return s.Scope == v1beta1.ScopeClusterSet }) {
				return true
			}
			for _, list := range [][]v1beta1.NetworkPolicyPeer{rules[i].From, rules[i].To} {
				if slices.ContainsFunc(list, func(p v1beta1.NetworkPolicyPeer) bool { return p.Scope == v1beta1.ScopeClusterSet }) {
					return true
				}
			}
		}
	}
	return false
}

// Grant takes over what the hub says of groups that own policies name. sent are the parts of groups
// that the stream has brought.
func (n *Peers) Grant(all []wire.Told, sent map[string]map[string]bool) {
	for i := range all {
		t := &all[i]
		if !peers.Own(t.Group) {
			continue
		}
		switch {
		case !t.Refused:
			n.book.Told(t.Group, t.Unheard, sent[t.Group])
		case peers.Allows(t.Group): // nobody keeps it current any more
			n.book.Empty(t.Group)
		}
		note := ""
		if t.Reason != "" {
			note = wire.Shortened(t.Reason) + ": " + wire.Shortened(t.Message)
		}
		n.notes[t.Group] = note
	}
}

// Answered reports whether the hub has said something of a group that own policies name.
func (n *Peers) Answered(group string) bool {
	_, answered := n.notes[group]
	return answered
}

// Connection is what is known of the hub.
type Connection struct {
	// Member tells that this cluster is in a set, Connected that there is a strean.
	Member, Connected bool
	// Version is that of the protocol that is spoken.
	Version int
}

// Notes are what is to be known of the groups that own policies name, by id; empty if all is well.
func (n *Peers) Notes(c Connection) map[string]string {
	notes := map[string]string{}
	for _, of := range n.untellable {
		maps.Copy(notes, of)
	}
	asked := n.feed.Interests()
	for _, id := range asked {
		note, answered := n.notes[id]
		switch {
		case answered:
		case !c.Member:
			note = noteAlone
		case c.Connected && c.Version < wire.VersionInterests:
			note = noteOldHub
		case n.book.Size(id) == 0:
			note = noteUnanswered
		}
		notes[id] = note
	}
	maps.DeleteFunc(n.notes, func(id string, _ string) bool { _, found := slices.BinarySearch(asked, id); return !found })
	return notes
}

// Has says in interests which groups have members here.
func (n *Peers) Has(all []wire.Interest) {
	for i := range all {
		all[i].Has = n.book.Size(all[i].Group) > 0
	}
}
