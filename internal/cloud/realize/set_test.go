package realize

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/feed"
	"github.com/nephele-io/nephele/internal/clusterset/outbox"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/clusterset/union"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
)

// setMember is a member of a set: what it tells, and what it has been told. One with an account
// enforces that there.
type setMember struct {
	name string
	feed *feed.Feed
	book *remote.Book
	out  *outbox.Outbox
	away bool
	*lab
}

// clusterSet is a hub with its members, without a wire between them.
type clusterSet struct {
	*testing.T
	hub     *union.Union
	members []*setMember
	wanted  map[string]*wire.Policy
}

func (s *clusterSet) join(name, prefix string, account *lab, visible ...string) *setMember {
	c := &setv1alpha1.Cluster{}
	c.Name, c.Spec.VisibleNamespaces = name, visible
	c.Spec.Addresses = setv1alpha1.ClusterAddresses{Pods: []string{prefix}, Machines: []string{prefix}}
	s.hub.PutCluster(name, nil, claims.Of(c, nil))
	m := &setMember{name: name, feed: feed.New(), book: remote.New(peers.Allows), out: outbox.New(name), lab: account}
	m.feed.PutNamespace(labNamespace, map[string]string{"kubernetes.io/metadata.name": labNamespace})
	m.feed.Begin()
	m.book.Begin()
	s.members = append(s.members, m)
	return m
}

// has makes a member tell of a workload.
func (m *setMember) has(kind policy.EntityKind, name, role, address string) {
	m.feed.PutEntity(&policy.Entity{
		EntityRef: policy.EntityRef{Kind: kind, Namespace: labNamespace, Name: name}, Labels: map[string]string{"role": role}, Addresses: []netip.Addr{netip.MustParseAddr(address)},
	})
}

// want makes a policy of the hub one for all.
func (s *clusterSet) want(p policy.Policy) {
	p.Set = true
	out := &wire.Policy{UID: p.UID}
	for _, g := range peers.Groups(&p) {
		s.hub.Want(g)
		out.Groups = append(out.Groups, g.ID)
	}
	s.wanted[p.UID] = out
	for _, m := range s.members {
		if m.lab != nil {
			m.engine.PutPolicy(peers.Localize(p))
		}
	}
}

// own makes a policy one of a member alone.
func (m *setMember) own(p policy.Policy) {
	m.feed.PutInterests(p.UID, peers.Interests(&p))
	m.engine.PutPolicy(peers.Localize(p))
}

// settle lets everybody be told, and the accounts be as wanted.
func (s *clusterSet) settle() {
	s.Helper()
	for range 3 {
		for _, m := range s.members {
			if m.away {
				continue
			}
			for u := m.feed.Next(); u != nil; u = m.feed.Next() {
				if wrong := s.hub.Apply(m.name, u); len(wrong) > 0 {
					s.Fatal(wrong)
				}
			}
		}
		s.hub.Commit()
		for _, m := range s.members {
			asked := map[string]wire.Told{}
			for _, i := range s.hub.Interests(m.name) {
				asked[i.Group.ID] = wire.Told{Group: i.Group.ID, Refused: i.Refused != ""}
			}
			for d := m.next(s, asked); d != nil; d = m.next(s, asked) {
				for i := range d.Parts {
					if err := m.book.Apply(&d.Parts[i]); err != nil {
						s.Fatal(err)
					}
				}
			}
		}
	}
	for _, m := range s.members {
		if m.lab == nil {
			continue
		}
		change, _ := m.book.Take()
		for _, e := range change.Put {
			m.engine.PutEntity(e)
		}
		for _, ref := range change.Gone {
			m.engine.DeleteEntity(ref)
		}
		m.publish()
		m.lab.settle()
	}
}

func (m *setMember) next(s *clusterSet, asked map[string]wire.Told) *wire.Down {
	if m.away {
		return nil
	}
	return m.out.Next(s.hub, outbox.Wanted{Policies: s.wanted, Asked: asked})
}

// admits compares the sources that reach the database of a member with the wanted ones, by the
// packets of its account.
func (m *setMember) admits(what string, want map[string]bool) {
	m.Helper()
	for _, from := range slices.Sorted(maps.Keys(want)) {
		if got := m.passes(probe{from, "db-1", 5432}); got != want[from] {
			m.Errorf("%s: %s: from %s: passes = %t, want %t", m.name, what, from, got, want[from])
		}
	}
}

// TestRemotePeersOnAccounts: one rule names a Pod of a cluster, the VMs of another one's account
// and a host, and the accounts of the members enforce it, as the packets of the simulated clouds
// show: over relabelling, absence and return. A member's own policy is enforced in its account
// alone.
func TestRemotePeersOnAccounts(t *testing.T) {
	s := &clusterSet{T: t, hub: union.New(), wanted: map[string]*wire.Policy{}}
	// The VMs of the two accounts see one another by public addresses.
	east, west := s.join("east", "192.0.2.0/24", newLab(t, labConfig{})), s.join("west", "198.51.100.0/24", newLab(t, labConfig{}))
	south := s.join("south", "203.0.113.0/24", nil, labNamespace)
	public := func(m *setMember, vm string, last int) string {
		address := fmt.Sprintf("%s.%d", map[string]string{"east": "192.0.2", "west": "198.51.100"}[m.name], last)
		m.has(policy.KindExternalEntity, vm, m.vms[vm].labels["role"], address)
		return address
	}
	eastWeb, westWeb := public(east, "web-1", 11), public(west, "web-1", 11)
	eastOps, westOps := public(east, "ops-1", 31), public(west, "ops-1", 31)
	const pod, otherPod, host, otherHost = "203.0.113.7", "203.0.113.8", "203.0.113.21", "203.0.113.22"
	south.has(policy.KindPod, "web", "web", pod)
	south.has(policy.KindPod, "batch", "batch", otherPod)
	south.has(policy.KindExternalEntity, "bastion", "bastion", host) // as an ExternalNode makes it
	south.has(policy.KindExternalEntity, "other", "other", otherHost)

	role := func(r string) *policy.Selector { return &policy.Selector{MatchLabels: map[string]string{"role": r}} }
	port := []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: 5432}}}
	db := []policy.AppliedTo{{ExternalEntitySelector: role("db"), NamespaceSelector: &policy.Selector{}}}
	s.want(policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: "hub-p", UID: "p", Tier: "application", Priority: 5, AppliedTo: db, Ingress: []policy.Rule{{
		Name: "r", Action: policy.Allow, Ports: port, Peers: []policy.Peer{
			{PodSelector: role("web"), NamespaceSelector: &policy.Selector{}, Scope: peers.ScopeClusterSet},
			{ExternalEntitySelector: role("web"), NamespaceSelector: &policy.Selector{}, Scope: peers.ScopeClusterSet},
			{ExternalEntitySelector: role("bastion"), NamespaceSelector: &policy.Selector{}, Scope: peers.ScopeClusterSet},
		}}}})
	east.start()
	west.start()
	s.settle()
	want := map[*setMember]map[string]bool{
		east: {pod: true, otherPod: false, host: true, otherHost: false, westWeb: true, westOps: false, "web-1": true, "ops-1": false},
		west: {pod: true, otherPod: false, host: true, otherHost: false, eastWeb: true, eastOps: false, "web-1": true, "ops-1": false},
	}
	check := func(what string) {
		t.Helper()
		for _, m := range []*setMember{east, west} {
			m.admits(what, want[m])
			if d := compare(m.actual(), m.wanted()); d != "" {
				t.Errorf("%s: %s: the packets are not as the engine says:\n%s", what, m.name, d)
			}
		}
	}
	check("at first")

	// Labels change in others.
	south.has(policy.KindPod, "web", "batch", pod)
	south.has(policy.KindExternalEntity, "other", "bastion", otherHost)
	west.has(policy.KindExternalEntity, "ops-1", "web", westOps)
	s.settle()
	want[east][pod], want[east][otherHost], want[east][westOps] = false, true, true
	want[west][pod], want[west][otherHost] = false, true
	check("relabelled")

	// West is away: it has what it had, and others have of it what they had.
	west.away = true
	south.has(policy.KindPod, "batch", "web", otherPod)
	west.has(policy.KindExternalEntity, "ops-1", "ops", westOps)
	s.settle()
	want[east][otherPod] = true
	check("west is away")
	west.away = false
	s.settle()
	want[east][westOps], want[west][otherPod] = false, true
	check("west is back")

	// A policy of east's own, from what south shows: a port of its own.
	east.own(policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: labNamespace, Name: "own", UID: "own", Tier: "application", Priority: 6,
		AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: role("db")}}, Ingress: []policy.Rule{{Name: "r", Action: policy.Allow,
			Ports: []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: 8080}}}, Peers: []policy.Peer{{PodSelector: role("batch"), Scope: peers.ScopeClusterSet}}}}})
	s.settle()
	check("an own policy")
	for _, m := range []*setMember{east, west} {
		if got, want := m.passes(probe{pod, "db-1", 8080}), m == east; got != want {
			t.Errorf("%s: from the batch Pod of south: passes = %t, want %t", m.name, got, want)
		}
	}
}

// TestServicesOnAccounts: a VM reaches a Service that another cluster exports, at its Pods and its
// load balancer, each at its own port, and nothing else there; over its scaling, while the hub is
// away, and until it is exported no more.
func TestServicesOnAccounts(t *testing.T) {
	t.Parallel()
	s := &clusterSet{T: t, hub: union.New(), wanted: map[string]*wire.Policy{}}
	west, south := s.join("west", "198.51.100.0/24", newLab(t, labConfig{})), s.join("south", "203.0.113.0/24", nil)
	const pod, second, other, balancer = "203.0.113.7", "203.0.113.8", "203.0.113.9", "203.0.113.100"
	south.has(policy.KindPod, "db-0", "db", pod)
	south.has(policy.KindPod, "other", "other", other)
	service := feed.Export{NamespacedName: policy.NamespacedName{Namespace: labNamespace, Name: "db"}, Selector: map[string]string{"role": "db"},
		Ports: []feed.ExportedPort{{Protocol: policy.TCP, Port: 443, Target: 5432}}, Balancers: []netip.Addr{netip.MustParseAddr(balancer)}}
	south.feed.PutExport(&service)
	s.want(policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: "hub-p", UID: "p", Tier: "application", Priority: 5,
		AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: &policy.Selector{MatchLabels: map[string]string{"role": "web"}}, NamespaceSelector: &policy.Selector{}}},
		Egress:    []policy.Rule{{Name: "db", Action: policy.Allow, ToServices: []policy.ServicePeer{{Namespace: labNamespace, Name: "db", Scope: peers.ScopeClusterSet}}}}})
	west.start()
	check := func(what string, open ...probe) {
		t.Helper()
		s.settle()
		for _, to := range []string{pod, second, other, balancer} {
			for _, port := range []uint16{443, 5432} {
				p := probe{"web-1", to, port}
				if got, want := west.passes(p), slices.Contains(open, p); got != want {
					t.Errorf("%s: %s: passes = %t, want %t", what, p, got, want)
				}
			}
		}
		if d := compare(west.actual(), west.wanted()); d != "" {
			t.Errorf("%s: the packets are not as the engine says:\n%s", what, d)
		}
	}
	toPod, toSecond, toBalancer := probe{"web-1", pod, 5432}, probe{"web-1", second, 5432}, probe{"web-1", balancer, 443}
	check("at first", toPod, toBalancer)
	south.has(policy.KindPod, "db-1", "db", second)
	check("scaled", toPod, toSecond, toBalancer)
	west.away = true
	south.feed.DropExport(service.NamespacedName)
	check("the hub is away", toPod, toSecond, toBalancer)
	west.away = false
	check("exported no more")
}

// TestRemotePeersOnAzure: the same on an account of Azure: a rule of the hub means Pods of another
// cluster there as the packets show, over relabelling and absence.
func TestRemotePeersOnAzure(t *testing.T) {
	t.Parallel()
	az := newAzureLab(t, azureConfig{})
	s := &clusterSet{T: t, hub: union.New(), wanted: map[string]*wire.Policy{}}
	west, south := s.join("west", "198.51.100.0/24", az.lab), s.join("south", "203.0.113.0/24", nil)
	const pod, otherPod = "203.0.113.7", "203.0.113.8"
	south.has(policy.KindPod, "web", "web", pod)
	south.has(policy.KindPod, "batch", "batch", otherPod)
	role := func(r string) *policy.Selector { return &policy.Selector{MatchLabels: map[string]string{"role": r}} }
	s.want(policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: "hub-p", UID: "p", Tier: "application", Priority: 5,
		AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: role("db"), NamespaceSelector: &policy.Selector{}}},
		Ingress: []policy.Rule{{Name: "r", Action: policy.Allow, Ports: []policy.Port{{Protocol: policy.TCP, Port: &policy.PortRef{Number: 5432}}},
			Peers: []policy.Peer{{PodSelector: role("web"), NamespaceSelector: &policy.Selector{}, Scope: peers.ScopeClusterSet}}}}})
	west.start()
	s.settle()
	check := func(what string, web, batch bool) {
		t.Helper()
		for from, want := range map[string]bool{pod: web, otherPod: batch, "203.0.113.9": false} {
			if got := az.half(probe{from, "db-1", 5432}, false).Allowed; got != want {
				t.Errorf("%s: from %s: passes = %t, want %t", what, from, got, want)
			}
		}
		if d := compare(az.actual(), az.wanted()); d != "" {
			t.Errorf("%s: the packets are not as the engine says:\n%s", what, d)
		}
	}
	check("at first", true, false)
	south.has(policy.KindPod, "batch", "web", otherPod)
	s.settle()
	check("relabelled", true, true)
	west.away = true
	south.has(policy.KindPod, "web", "batch", pod)
	s.settle()
	check("the hub is away", true, true)
	west.away = false
	s.settle()
	check("the hub is back", false, true)
}

// TestHubIsBounded: a hub that somebody has taken over cuts no failsafe flow of a member's account,
// and a policy of it for all VMs waits for a confirmation, as any other.
func TestHubIsBounded(t *testing.T) {
	t.Parallel()
	const operator = "198.51.100.7"
	nothing := policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: "hub-cut", UID: "cut", Tier: "emergency", Priority: 1,
		AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: &policy.Selector{}, NamespaceSelector: &policy.Selector{}}},
		Ingress:   []policy.Rule{{Name: "in", Action: policy.Drop}}, Egress: []policy.Rule{{Name: "out", Action: policy.Drop}}}
	member := func(l *lab) *clusterSet {
		s := &clusterSet{T: t, hub: union.New(), wanted: map[string]*wire.Policy{}}
		s.join("west", "198.51.100.0/24", l)
		s.want(nothing)
		return s
	}
	l := newLab(t, labConfig{failsafe: []plan.FailsafeFlow{{
		Direction: cloud.Ingress, Services: []plan.Service{{Protocol: cloud.TCP, From: 22, To: 22}}, Peers: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
	}}})
	s := member(l)
	s.members[0].start()
	s.settle()
	for p, want := range map[probe]bool{{operator, "db-1", 22}: true, {operator, "db-1", 5432}: false, {"203.0.113.7", "db-1", 22}: false, {"web-1", "db-1", 5432}: false} {
		if got := l.passes(p); got != want {
			t.Errorf("%s: passes = %t, want %t", p, got, want)
		}
	}

	braked := newBrakedLab(t, labConfig{})
	before := braked.holdings()
	member(braked).members[0].start()
	braked.publish()
	if w := braked.waits(); w.Hash == "" || gocmp.Diff(before, braked.holdings()) != "" {
		t.Errorf("it does not wait: %+v", w)
	}
}
