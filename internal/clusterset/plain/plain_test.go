package plain

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/seed"
)

// member is one cluster told twice: native is an engine that knows the set, foreign one that knows
// nothing of it and has only the objects of an Antrea installation.
type member struct {
	*testing.T
	*rand.Rand
	given           map[string]string
	native, foreign *compute.Engine
	groups          []string
	book            *remote.Book
	entities        *Entities
	// api is what the API server has.
	api map[string]*v1alpha2.ExternalEntity
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func newMember(t *testing.T, r *rand.Rand) *member {
	m := &member{T: t, Rand: r, given: peers.Given("east", map[string]string{"env": "prod"}), native: compute.New(compute.Options{}), foreign: compute.New(compute.Options{}),
		book: remote.New(peers.Allows), entities: NewEntities(), api: map[string]*v1alpha2.ExternalEntity{}}
	for _, name := range []string{"shop", "ops", "dev"} {
		labels := map[string]string{namespaceName: name, "team": pick(r, "a", "b")}
		m.foreign.PutNamespace(policy.Namespace{Name: name, Labels: labels})
		labels = maps.Clone(labels)
		maps.Copy(labels, m.given)
		m.native.PutNamespace(policy.Namespace{Name: name, Labels: labels})
	}
	m.foreign.PutNamespace(policy.Namespace{Name: Namespace, Labels: map[string]string{namespaceName: Namespace}})
	for i := range 25 {
		e := policy.Entity{EntityRef: policy.EntityRef{Kind: pick(r, policy.KindPod, policy.KindExternalEntity, policy.KindNode), Name: fmt.Sprint("x", i)}, Host: "host",
			Labels: map[string]string{"app": pick(r, "web", "db")}, ServiceAccount: pick(r, "default", "web"), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})}}
		if e.Kind != policy.KindNode {
			e.Namespace = pick(r, "shop", "ops", "dev")
		}
		m.foreign.PutEntity(e)
		if e.Kind == policy.KindNode {
			e.Labels = maps.Clone(e.Labels)
			maps.Copy(e.Labels, m.given)
		}
		m.native.PutEntity(e)
	}
	return m
}

// selector selects by labels of workloads, or also by labels of the set.
func (m *member) selector(set bool) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	require := func(key string, op metav1.LabelSelectorOperator, values ...string) {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: values})
	}
	key, values := "app", []string{"web", "db"}
	if set {
		key, values = "team", []string{"a", "b"}
		switch m.IntN(6) {
		case 0:
			s.MatchLabels = map[string]string{setv1alpha1.LabelClusterName: pick(m.Rand, "east", "west")}
		case 1:
			require("set.nephele.io/env", pick(m.Rand, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), pick(m.Rand, "prod", "test"))
		case 2:
			require("set.nephele.io/site", pick(m.Rand, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist))
		}
	}
	switch m.IntN(3) {
	case 0:
		require(key, metav1.LabelSelectorOpNotIn, pick(m.Rand, values...))
	case 1:
		metav1.AddLabelToSelector(s, key, pick(m.Rand, values...))
	}
	return s
}

func (m *member) peer(wide bool) v1beta1.NetworkPolicyPeer {
	p := v1beta1.NetworkPolicyPeer{Scope: pick(m.Rand, "", v1beta1.ScopeClusterSet, v1beta1.ScopeClusterSet)}
	switch m.IntN(6) {
	case 0:
		p.NodeSelector = m.selector(true)
		return p
	case 1:
		if wide {
			p.ServiceAccount = &v1beta1.NamespacedName{Namespace: "shop", Name: "web"}
			return p
		}
		p.PodSelector = m.selector(false)
	case 2, 3:
		p.ExternalEntitySelector = m.selector(false)
	case 4:
		return v1beta1.NetworkPolicyPeer{IPBlock: &v1beta1.IPBlock{CIDR: "192.0.2.0/24"}}
	default:
		p.PodSelector = m.selector(false)
	}
	if m.IntN(2) == 0 {
		p.NamespaceSelector = m.selector(true)
	}
	return p
}

func (m *member) spec(wide bool) v1beta1.NetworkPolicySpec {
	rules := func() []v1beta1.Rule {
		var out []v1beta1.Rule
		for range m.IntN(3) {
			var list []v1beta1.NetworkPolicyPeer
			for range m.IntN(4) {
				list = append(list, m.peer(wide))
			}
			r := v1beta1.Rule{Name: fmt.Sprint("r", m.Uint32()), Action: pick(m.Rand, v1beta1.RuleActionAllow, v1beta1.RuleActionDrop), From: list}
			if m.IntN(3) == 0 {
				http := intstr.FromString("http")
				r.Ports = []v1beta1.NetworkPolicyPort{{Port: &http}}
			}
			out = append(out, r)
		}
		return out
	}
	s := v1beta1.NetworkPolicySpec{Priority: 5, Ingress: rules(), Egress: rules()}
	for i := range s.Egress {
		s.Egress[i].From, s.Egress[i].To = nil, s.Egress[i].From
	}
	a := v1beta1.AppliedTo{PodSelector: m.selector(false)}
	if m.IntN(3) == 0 {
		a = v1beta1.AppliedTo{ExternalEntitySelector: m.selector(false)}
	}
	if wide && m.IntN(2) == 0 {
		a.NamespaceSelector = m.selector(true)
	}
	if wide && m.IntN(4) == 0 {
		a = v1beta1.AppliedTo{NodeSelector: m.selector(true)}
	}
	s.AppliedTo = []v1beta1.AppliedTo{a}
	return s
}

// enforce gives both engines a policy of the hub.
func (m *member) enforce(n int) {
	meta := metav1.ObjectMeta{Name: fmt.Sprint("hub-p", n), UID: "", Labels: map[string]string{setv1alpha1.LabelFromHub: "true"}}
	var p, q policy.Policy
	var made []*v1beta1.ClusterGroup
	var err error
	if m.IntN(2) == 0 {
		o := &v1beta1.ClusterNetworkPolicy{ObjectMeta: meta, Spec: m.spec(true)}
		p = convert.ClusterNetworkPolicy(o)
		o = o.DeepCopy()
		made, err = Policy(o, nil, m.given)
		q = convert.ClusterNetworkPolicy(o)
		for _, peer := range slices.Concat(q.Ingress, q.Egress) {
			for i := range peer.Peers {
				if peer.Peers[i].ExternalEntitySelector != nil {
					m.Fatal("a definition of Antrea takes no externalEntitySelector in a ClusterNetworkPolicy")
				}
			}
		}
	} else {
		meta.Namespace = pick(m.Rand, "shop", "ops")
		o := &v1beta1.NetworkPolicy{ObjectMeta: meta, Spec: m.spec(false)}
		p = convert.NetworkPolicy(o)
		o = o.DeepCopy()
		made, err = Policy(o, nil, m.given)
		q = convert.NetworkPolicy(o)
	}
	if err != nil {
		m.Fatal(err)
	}
	for _, g := range made {
		m.foreign.PutGroup(convert.ClusterGroup(g))
	}
	for _, r := range slices.Concat(q.Ingress, q.Egress) {
		for i := range r.Peers {
			if r.Peers[i].Scope != "" {
				m.Fatal("a scope is left, which an Antrea Controller takes for another one")
			}
		}
	}
	for _, g := range peers.Groups(&p) {
		if !slices.Contains(m.groups, g.ID) {
			m.groups = append(m.groups, g.ID)
			m.book.Know(g.ID)
		}
	}
	p.UID, q.UID = meta.Name, meta.Name
	m.native.PutPolicy(peers.Localize(p))
	m.foreign.PutPolicy(q)
}

// change changes the members of remote groups.
func (m *member) change() {
	if len(m.groups) == 0 {
		return
	}
	part := &wire.Part{Group: pick(m.Rand, m.groups...), Cluster: pick(m.Rand, "west", "north"), Whole: m.IntN(5) == 0}
	for range m.IntN(40) {
		member := wire.RemoteMember{Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 2, 0, byte(m.IntN(200))})}}
		if m.IntN(4) == 0 {
			member.Addresses = append(member.Addresses, netip.AddrFrom16([16]byte{0xfd, 15: byte(m.IntN(200))}))
		}
		if m.IntN(4) == 0 {
			member.Ports = []wire.Port{{Name: "http", Protocol: "TCP", Port: int32(80 + m.IntN(2))}}
		}
		if m.IntN(2) == 0 {
			part.Add = append(part.Add, member.String())
		} else {
			part.Remove = append(part.Remove, member.String())
		}
	}
	if err := m.book.Apply(part); err != nil {
		m.Fatal(err)
	}
	if m.IntN(10) == 0 {
		m.book.Expire(!m.book.Expired())
	}
	m.take()
}

func (m *member) take() {
	change, _ := m.book.Take()
	for _, e := range change.Put {
		m.native.PutEntity(e)
		m.entities.Put(&e)
	}
	for _, ref := range change.Gone {
		m.native.DeleteEntity(ref)
		m.entities.Drop(ref.Name)
	}
}

// write does up to n of the writes that are due, and reports whether all are done. No member that
// was there and is to be there is missing in between.
func (m *member) write(n int, losses bool) bool {
	before := m.holds()
	steps := m.entities.Steps(losses)
	wanted := map[string]bool{}
	for name := range m.entities.bundles {
		if o := m.entities.want(name); o != nil {
			mark(wanted, o)
		}
	}
	for i, s := range steps {
		if i == n {
			return false
		}
		if s.Gone {
			delete(m.api, s.Object.Name)
			m.foreign.DeleteEntity(policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: Namespace, Name: s.Object.Name})
			m.entities.Removed(s.Object.Name)
		} else {
			o := s.Object.DeepCopy()
			if len(o.Spec.Endpoints) > 2*MostAddresses {
				m.Fatalf("%d addresses in one", len(o.Spec.Endpoints))
			}
			m.put(o)
			m.entities.Wrote(o)
		}
		now := m.holds()
		for what := range before {
			if (wanted[what] || !losses && !strings.HasPrefix(what, forged)) && !now[what] {
				m.Fatalf("step %d of %d: %s has gone", i, len(steps), what)
			}
		}
	}
	return len(steps) == 0
}

func (m *member) put(o *v1alpha2.ExternalEntity) {
	m.api[o.Name] = o
	e, errs := convert.ExternalEntity(o)
	if len(errs) > 0 {
		m.Fatal(errs)
	}
	m.foreign.PutEntity(e)
}

// mark notes the groups of each address.
func mark(into map[string]bool, o *v1alpha2.ExternalEntity) {
	for _, e := range o.Spec.Endpoints {
		for _, g := range groupsOf(o) {
			into[g+" "+e.IP] = true
		}
	}
}

func (m *member) holds() map[string]bool {
	out := map[string]bool{}
	for _, o := range m.api {
		mark(out, o)
	}
	return out
}

// restart begins anew with what is in the API server.
func (m *member) restart() {
	m.entities = NewEntities()
	var all []v1alpha2.ExternalEntity
	for _, name := range slices.Sorted(maps.Keys(m.api)) {
		all = append(all, *m.api[name].DeepCopy())
	}
	m.entities.Load(all)
	for _, e := range m.book.Entities() {
		m.entities.Put(&e)
	}
}

// meaning is what an engine has computed, in words that do not tell how members are called.
func meaning(e *compute.Engine) map[string][]string {
	e.Commit()
	l := e.Listing()
	members := func(all []policy.ComputedGroup, name string, refs bool) []string {
		var out []string
		for _, g := range all {
			if g.Name != name {
				continue
			}
			for _, m := range g.Members {
				for _, a := range m.IPs {
					out = append(out, fmt.Sprint(a, m.Ports))
				}
				if refs {
					out = append(out, fmt.Sprint(m.EntityRef))
				}
			}
		}
		return out
	}
	out := map[string][]string{}
	for _, p := range l.Policies {
		var all []string
		for _, g := range p.AppliedToGroups {
			all = append(all, members(l.AppliedToGroups, g, true)...)
		}
		out[p.Source.UID] = all
		for i := range p.Rules {
			r := &p.Rules[i]
			var all []string
			for _, g := range r.AddressGroups {
				all = append(all, members(l.AddressGroups, g, false)...)
			}
			rest, err := json.Marshal([]any{r.IPBlocks, r.FQDNs, r.Action, r.Services, r.Priority, r.Direction})
			if err != nil {
				panic(err)
			}
			all = append(all, string(rest))
			out[fmt.Sprint(p.Source.UID, " ", i, " ", r.Name)] = all
		}
	}
	for k, v := range out {
		slices.Sort(v)
		out[k] = slices.Compact(v)
	}
	return out
}

// TestPlainIsNative: what an engine computes that knows nothing of a set, from the objects that are
// written for it, is what our own member computes: the same policies with the same rules, members
// and ports, in random worlds with writes that are cut off and restarts in between. No member that
// stays is missing meanwhile, and edits by others are undone.
func TestPlainIsNative(t *testing.T) {
	compared, remotes := 0, 0
	for world := range 60 {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			m := newMember(t, rand.New(rand.NewPCG(seed.Of(t), 1)))
			for round := range 6 {
				for i := range 3 {
					m.enforce(3*round + i)
				}
				for range 12 {
					switch m.IntN(8) {
					case 0:
						m.write(m.IntN(4), true)
					case 1:
						m.write(100, false)
					case 2:
						m.restart()
						m.write(m.IntN(3), false)
					case 3:
						m.edit()
					default:
						m.change()
					}
				}
				for n := 0; !m.write(1000, true); n++ {
					if n > 3 {
						t.Fatal("it does not come to rest")
					}
				}
				native, foreign := meaning(m.native), meaning(m.foreign)
				for what, want := range native {
					if got := foreign[what]; !slices.Equal(got, want) {
						t.Fatalf("%s: %v, want %v", what, got, want)
					}
					compared += len(want)
				}
				if len(native) != len(foreign) {
					t.Fatalf("%d policies and rules, want %d", len(foreign), len(native))
				}
				for _, o := range m.api {
					remotes += len(o.Spec.Endpoints)
					if len(o.Spec.Endpoints) > MostAddresses {
						t.Fatalf("%d addresses in one", len(o.Spec.Endpoints))
					}
				}
				m.restart()
				if !m.write(1000, true) {
					t.Fatal("a restart writes what is there already")
				}
			}
		})
	}
	if compared < 10_000 || remotes < 10_000 {
		t.Errorf("%d compared, with %d addresses of other clusters: the worlds are too small to show anything", compared, remotes)
	}
}

// forged is a group that there is not.
const forged = "gaff"

// edit is what somebody else does to one.
func (m *member) edit() {
	if len(m.api) == 0 {
		return
	}
	o := m.api[slices.Sorted(maps.Keys(m.api))[0]].DeepCopy()
	switch m.IntN(5) {
	case 0:
		o.Spec.Endpoints = append(o.Spec.Endpoints, v1alpha2.Endpoint{IP: "192.0.2.1", Name: "forged"})
	case 1:
		o.Labels[LabelOf(forged)] = ""
	case 2:
		o.Spec.ExternalNode = "host"
	case 3:
		o.Name = "r-forged-0"
	case 4:
		o.Spec.Ports = append(o.Spec.Ports, v1alpha2.NamedPort{Name: "x", Protocol: "TCP", Port: 1})
	}
	m.put(o)
	m.entities.Hear(o, false)
}

// TestPolicyRefuses: what an Antrea Controller cannot be told of is refused, never left out.
func TestPolicyRefuses(t *testing.T) {
	all := &metav1.LabelSelector{}
	for want, r := range map[string]v1beta1.Rule{
		"Services of other clusters": {ToServices: []v1beta1.PeerService{{Namespace: "shop", Name: "db", Scope: v1beta1.ScopeClusterSet}}},
		"sameLabels":                 {From: []v1beta1.NetworkPolicyPeer{{PodSelector: all, Namespaces: &v1beta1.PeerNamespaces{SameLabels: []string{setv1alpha1.LabelClusterName}}}}},
		"no such scope":              {From: []v1beta1.NetworkPolicyPeer{{Group: "g", Scope: v1beta1.ScopeClusterSet}}},
	} {
		r.Action = v1beta1.RuleActionAllow
		o := &v1beta1.ClusterNetworkPolicy{Spec: v1beta1.NetworkPolicySpec{Ingress: []v1beta1.Rule{r}}}
		o.Labels = map[string]string{setv1alpha1.LabelFromHub: "true"}
		if _, err := Policy(o, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestKubernetesPolicy: selectors of Namespaces are resolved there, too, and in groups.
func TestKubernetesPolicy(t *testing.T) {
	here := &metav1.LabelSelector{MatchLabels: map[string]string{setv1alpha1.LabelClusterName: "east"}}
	elsewhere := &metav1.LabelSelector{MatchLabels: map[string]string{setv1alpha1.LabelClusterName: "west"}}
	o := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: here}}}},
		Egress:  []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: elsewhere}}}},
	}}
	g := &v1beta1.ClusterGroup{Spec: v1beta1.GroupSpec{ExternalEntitySelector: &metav1.LabelSelector{}, NamespaceSelector: here}}
	made, err := Policy(o, []metav1.Object{g}, peers.Given("east", nil))
	in, out := o.Spec.Ingress[0].From[0].NamespaceSelector, o.Spec.Egress[0].To[0].NamespaceSelector
	if err = errors.Join(err); err != nil || len(made) > 0 || len(in.MatchLabels)+len(in.MatchExpressions) > 0 || len(out.MatchExpressions) != 2 ||
		len(g.Spec.NamespaceSelector.MatchLabels) > 0 || g.Spec.ExternalEntitySelector.MatchExpressions[0].Key != setv1alpha1.LabelFromHub {
		t.Errorf("%v %v %v %+v %v", in, out, made, g.Spec, err)
	}
}
