package member

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// This cluster's own policies with the scope ClusterSet: the hub is asked for the groups that they
// name, and what it answers is told of the policies. What it has sent stays while it is away.

// What is told of policies before the hub has answered.
const (
	noteUnanswered = "the hub has not answered yet: workloads of other clusters are not in this peer"
	noteOldHub     = "the hub is of a version that does not answer this: upgrade it; workloads of other clusters are not in this peer"
	noteAlone      = "this cluster is in no set, or has left it: see nephele join"
)

// hearOwn takes over a policy that may be this cluster's own. The caller holds the lock.
func (m *Member) hearOwn(o client.Object, gone bool) {
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
		return
	}
	var all []wire.Interest
	if !gone && !p.Set && !convert.Staged(o) {
		all = peers.Interests(&p)
	}
	if len(all) > 0 { // whoever enforces keeps the last valid version, so its groups stay
		admission.Default(&p)
		if len(admission.ValidatePolicy(&p, map[string]int32{p.Tier: 0})) > 0 {
			return
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
		m.services.note(&p)
	}
	changed := m.feed.PutInterests(key, all) || !maps.Equal(untellable, m.untellable[key])
	if m.untellable[key] = untellable; len(untellable) == 0 {
		delete(m.untellable, key)
	}
	if changed {
		m.annotate()
		wake(m.work)
	}
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

// granted takes over what the hub says of groups that own policies name. The caller holds the lock.
func (m *Member) granted(all []wire.Told) {
	for i := range all {
		t := &all[i]
		if !peers.Own(t.Group) {
			continue
		}
		switch {
		case !t.Refused:
			m.book.Told(t.Group, t.Unheard, m.sent[t.Group])
		case peers.Allows(t.Group): // nobody keeps it current any more
			m.book.Empty(t.Group)
		}
		note := ""
		if t.Reason != "" {
			note = shortened(t.Reason) + ": " + shortened(t.Message)
		}
		m.notes[t.Group] = note
	}
	if len(all) > 0 {
		m.annotate()
	}
}

// annotate tells Policies what is to be known of the groups that own policies name. The caller
// holds the lock.
func (m *Member) annotate() {
	notes := map[string]string{}
	for _, of := range m.untellable {
		maps.Copy(notes, of)
	}
	asked := m.feed.Interests()
	for _, id := range asked {
		note, answered := m.notes[id]
		switch {
		case answered:
		case m.state.membership == nil:
			note = noteAlone
		case m.state.connected && m.state.version < wire.VersionInterests:
			note = noteOldHub
		case m.book.Size(id) == 0:
			note = noteUnanswered
		}
		notes[id] = note
	}
	maps.DeleteFunc(m.notes, func(id string, _ string) bool { _, found := slices.BinarySearch(asked, id); return !found })
	m.Policies.PutPeerNotes(notes)
}

// has says in interests which groups have members here. The caller holds the lock.
func (m *Member) has(all []wire.Interest) {
	for i := range all {
		all[i].Has = m.book.Size(all[i].Group) > 0
	}
}
