package clusterset_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/feed"
	"github.com/nephele-io/nephele/internal/clusterset/outbox"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/clusterset/union"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/seed"
)

// site is one member: what it really has, and what its process holds.
type site struct {
	name       string
	labels     map[string]string
	namespaces map[string]map[string]string
	entities   map[policy.EntityRef]policy.Entity
	exports    map[policy.NamespacedName]feed.Export

	engine *compute.Engine
	feed   *feed.Feed
	book   *remote.Book
	// records are what it keeps on disk.
	records  map[string][]byte
	policies map[string]*wire.Policy
	// own are its own policies, visible the Namespaces that policies of others may mean.
	own     map[string]policy.Policy
	visible []string
	// stream is what connects it with the hub; nil while it is cut. link is what both ends remember
	// of the last one: nil if one of them has begun anew.
	stream *stream
	link   *link
}

// link is what is remembered of streams that go on one after another: what was told, which parts
// it has brought, and the last records that either end has had.
type link struct {
	out          *outbox.Outbox
	parts        map[string]map[string]bool
	taken, heard uint64
}

// stream is a connection: what is under way in it, in order.
type stream struct{ up, down [][]byte }

// world is a set: a hub, its members, and the policies for all of them.
type world struct {
	*testing.T
	*rand.Rand
	hub *union.Union
	// kept is what the hub keeps of members.
	kept     map[string][]*wire.Up
	sites    []*site
	policies map[string]policy.Policy
	wanted   map[string]*wire.Policy
	next     int
	// resumed counts the streams that went on where another had ended.
	resumed int
}

func newWorld(t *testing.T, r *rand.Rand) *world {
	w := &world{T: t, Rand: r, policies: map[string]policy.Policy{}, wanted: map[string]*wire.Policy{}, kept: map[string][]*wire.Up{}}
	for _, name := range []string{"east", "west", "north"} {
		s := &site{name: name, labels: map[string]string{"env": pick(r, "prod", "test")}, namespaces: map[string]map[string]string{}, entities: map[policy.EntityRef]policy.Entity{},
			exports: map[policy.NamespacedName]feed.Export{}, records: map[string][]byte{}, policies: map[string]*wire.Policy{}, own: map[string]policy.Policy{}}
		w.sites = append(w.sites, s)
		w.boot(s)
	}
	w.bootHub()
	return w
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// bootHub starts the hub's process: it knows the Clusters and policies, and of members what it has
// kept.
func (w *world) bootHub() {
	w.hub = union.New()
	for _, s := range w.sites {
		s.stream, s.link = nil, nil
		w.hub.PutCluster(s.name, s.labels, s.bounds())
		w.hub.Recall(s.name, w.kept[s.name])
	}
	for _, p := range w.policies {
		for _, g := range peers.Groups(&p) {
			w.hub.Want(g)
		}
	}
}

func (s *site) bounds() *claims.Bounds {
	c := &setv1alpha1.Cluster{}
	c.Name, c.Labels, c.Spec.VisibleNamespaces = s.name, s.labels, s.visible
	c.Spec.Addresses = setv1alpha1.ClusterAddresses{Pods: []string{"10.0.0.0/8"}, Nodes: []string{"10.0.0.0/8"}, Machines: []string{"10.0.0.0/8"}}
	return claims.Of(c, nil)
}

// boot starts the process of a member: of remote groups it has what it has kept.
func (w *world) boot(s *site) {
	s.engine, s.feed, s.book, s.stream = compute.New(compute.Options{}), feed.New(), remote.New(peers.Allows), nil
	s.link = nil
	for group, record := range s.records {
		if err := s.book.Load(group, record); err != nil {
			w.Fatal(err)
		}
	}
	for name, labels := range s.namespaces {
		w.putNamespace(s, name, labels)
	}
	for _, e := range s.entities {
		w.putEntity(s, e)
	}
	for _, x := range s.exports {
		s.feed.PutExport(&x)
	}
	w.take(s)
	for uid := range s.policies {
		w.enforce(s, uid)
	}
	for uid, p := range s.own {
		w.enforceOwn(s, uid, p)
	}
}

// enforceOwn gives the member's engine a policy of its own.
func (*world) enforceOwn(s *site, uid string, p policy.Policy) {
	s.engine.PutPolicy(peers.Localize(p))
	s.feed.PutInterests(uid, peers.Interests(&p))
}

func (w *world) putNamespace(s *site, name string, labels map[string]string) {
	own := maps.Clone(labels)
	maps.Copy(own, peers.Given(s.name, s.labels))
	s.engine.PutNamespace(policy.Namespace{Name: name, Labels: own})
	s.feed.PutNamespace(name, labels)
}

func (w *world) putEntity(s *site, e policy.Entity) {
	s.feed.PutEntity(&e)
	if e.Kind == policy.KindNode {
		e.Labels = maps.Clone(e.Labels)
		maps.Copy(e.Labels, peers.Given(s.name, s.labels))
	}
	s.engine.PutEntity(e)
}

// enforce gives the member's engine a policy that it has received.
func (w *world) enforce(s *site, uid string) {
	if p, there := w.policies[uid]; there {
		s.engine.PutPolicy(peers.Localize(p))
	}
}

// take brings the book's changes into the engine, and on disk.
func (w *world) take(s *site) {
	w.serve(s)
	change, groups := s.book.Take()
	for _, e := range change.Put {
		s.engine.PutEntity(e)
	}
	for _, ref := range change.Gone {
		s.engine.DeleteEntity(ref)
	}
	for _, g := range groups {
		delete(s.records, g)
		if s.book.Knows(g) {
			record, err := s.book.Record(g)
			if err != nil {
				w.Fatal(err)
			}
			s.records[g] = record
		}
	}
}

// connect begins a stream.
func (w *world) connect(s *site) {
	s.stream = &stream{}
	if s.link != nil && w.IntN(4) > 0 && s.link.out.Resume(s.link.heard) {
		w.resumed++
		if !s.feed.Resume(s.link.taken) {
			s.feed.Begin()
		}
		return
	}
	s.link = &link{out: outbox.New(s.name), parts: map[string]map[string]bool{}}
	s.feed.Begin()
	s.book.Begin()
}

func encode(w *world, record any) []byte {
	var out bytes.Buffer
	if err := wire.Write(&out, record); err != nil {
		w.Fatal(err)
	}
	return out.Bytes()
}

// move lets something happen in a stream; false if there is nothing.
func (w *world) move(s *site) bool {
	at := s.stream
	if at == nil {
		return false
	}
	moved := false
	if u := s.feed.Next(); u != nil {
		at.up, moved = append(at.up, encode(w, u)), true
	}
	if len(at.up) > 0 && w.IntN(2) == 0 {
		var u wire.Up
		if err := wire.NewReader(bytes.NewReader(at.up[0])).Read(&u); err != nil {
			w.Fatal(err)
		}
		if wrong := w.hub.Apply(s.name, &u); len(wrong) > 0 {
			w.Fatal(wrong)
		}
		for i := range u.Interests {
			s.link.out.Ask(u.Interests[i].Group)
		}
		s.link.taken = max(s.link.taken, u.Sequence)
		at.up = at.up[1:]
	}
	w.hub.Commit()
	if d := s.link.out.Next(w.hub, outbox.Wanted{Policies: w.wanted, Asked: w.asked(s)}); d != nil {
		at.down, moved = append(at.down, encode(w, d)), true
	}
	if len(at.down) > 0 && w.IntN(2) == 0 {
		var d wire.Down
		if err := wire.NewReader(bytes.NewReader(at.down[0])).Read(&d); err != nil {
			w.Fatal(err)
		}
		w.receive(s, &d)
		s.link.heard = d.Sequence
		at.down = at.down[1:]
	}
	return moved || len(at.up)+len(at.down) > 0
}

// asked answers what a member asks for.
func (w *world) asked(s *site) map[string]wire.Told {
	out := map[string]wire.Told{}
	for _, i := range w.hub.Interests(s.name) {
		if i.Refused != "" {
			w.Fatal(i)
		}
		out[i.Group.ID] = wire.Told{Group: i.Group.ID}
	}
	return out
}

func (w *world) receive(s *site, d *wire.Down) {
	for i := range d.Parts {
		p := &d.Parts[i]
		if err := s.book.Apply(p); err != nil {
			w.Fatal(err)
		}
		if s.link.parts[p.Group] == nil {
			s.link.parts[p.Group] = map[string]bool{}
		}
		s.link.parts[p.Group][p.Cluster] = true
	}
	w.take(s)
	for i := range d.Policies {
		s.policies[d.Policies[i].UID] = &d.Policies[i]
		w.enforce(s, d.Policies[i].UID)
	}
	drop := func(uid string) {
		delete(s.policies, uid)
		s.engine.DeletePolicy(uid)
	}
	for _, uid := range d.GonePolicies {
		drop(uid)
	}
	for _, t := range d.Told {
		s.book.Told(t.Group, t.Unheard, s.link.parts[t.Group])
	}
	if d.Sync != nil {
		for uid := range s.policies {
			if !slices.Contains(d.Sync.Policies, uid) {
				drop(uid)
			}
		}
		s.book.Sync(d.Sync, slices.DeleteFunc(slices.Collect(maps.Keys(s.groups())), peers.Own), s.link.parts)
	}
	w.forget(s)
	w.take(s)
}

// forget drops the groups of a member that no policy names.
func (*world) forget(s *site) {
	wanted := s.groups()
	for _, g := range s.book.Groups() {
		if !wanted[g] {
			s.book.Forget(g)
			if s.link != nil {
				delete(s.link.parts, g)
			}
		}
	}
}

// groups are those that the policies of a member name.
func (s *site) groups() map[string]bool {
	out := map[string]bool{}
	for _, p := range s.policies {
		for _, g := range p.Groups {
			out[g] = true
		}
	}
	for _, g := range s.feed.Interests() {
		out[g] = true
	}
	return out
}

// change makes a random change of the world.
func (w *world) change() {
	s := pick(w.Rand, w.sites...)
	defer w.take(s)
	switch w.IntN(19) {
	case 17, 18:
		w.export(s)
	case 13:
		s.visible = pick(w.Rand, nil, []string{"shop"}, []string{"shop", "d*"}, []string{"*"})
		w.hub.PutCluster(s.name, s.labels, s.bounds())
	case 14, 15:
		p := w.randomPolicy(false)
		s.own[p.UID] = p
		w.enforceOwn(s, p.UID, p)
	case 16:
		if all := slices.Sorted(maps.Keys(s.own)); len(all) > 0 {
			p := s.own[all[0]]
			delete(s.own, all[0])
			s.engine.DeletePolicy(all[0])
			s.feed.PutInterests(all[0], nil)
			if w.IntN(2) == 0 { // it comes again, and what was known of its groups is gone
				w.forget(s)
				w.take(s)
				s.own[all[0]] = p
				w.enforceOwn(s, all[0], p)
			}
		}
	case 12: // as the hub keeps it: encoded, and when it is read again perhaps old
		if w.hub.Counts(s.name).Heard {
			w.kept[s.name] = nil
			for _, part := range w.hub.Records(s.name, 2) {
				for _, record := range part {
					u := &wire.Up{}
					if err := wire.NewReader(bytes.NewReader(encode(w, record))).Read(u); err != nil {
						w.Fatal(err)
					}
					w.kept[s.name] = append(w.kept[s.name], u)
				}
			}
		}
	case 0:
		name := pick(w.Rand, "shop", "ops", "dev")
		s.namespaces[name] = map[string]string{"kubernetes.io/metadata.name": name, "team": pick(w.Rand, "a", "b")}
		w.putNamespace(s, name, s.namespaces[name])
	case 1, 2, 3, 4, 5:
		e := w.entity(s)
		s.entities[e.EntityRef] = e
		w.putEntity(s, e)
	case 6:
		for _, ref := range slices.SortedFunc(maps.Keys(s.entities), func(a, b policy.EntityRef) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
			delete(s.entities, ref)
			s.engine.DeleteEntity(ref)
			s.feed.DropEntity(ref)
			break
		}
	case 7, 8:
		w.newPolicy()
	case 9:
		if all := slices.Sorted(maps.Keys(w.policies)); len(all) > 0 {
			p := w.policies[all[0]]
			delete(w.policies, all[0])
			delete(w.wanted, all[0])
			for _, g := range peers.Groups(&p) {
				if !slices.ContainsFunc(slices.Collect(maps.Values(w.wanted)), func(o *wire.Policy) bool { return slices.Contains(o.Groups, g.ID) }) {
					w.hub.Unwant(g.ID)
				}
			}
		}
	case 10:
		s.stream = nil // what is under way is lost
	case 11:
		if w.IntN(3) == 0 {
			w.bootHub()
		} else {
			w.boot(s)
		}
	}
}

func (w *world) entity(s *site) policy.Entity {
	kind := pick(w.Rand, policy.KindPod, policy.KindPod, policy.KindExternalEntity, policy.KindNode)
	e := policy.Entity{EntityRef: policy.EntityRef{Kind: kind, Name: fmt.Sprintf("x%d", w.IntN(5))}, Labels: map[string]string{}}
	if kind != policy.KindNode {
		e.Namespace = pick(w.Rand, "shop", "ops", "dev")
	}
	if kind == policy.KindPod {
		e.ServiceAccount = pick(w.Rand, "default", "web")
		e.HostNetwork = w.IntN(6) == 0
	}
	for _, k := range []string{"app", "tier"} {
		if v := pick(w.Rand, "", "web", "db"); v != "" {
			e.Labels[k] = v
		}
	}
	if w.IntN(4) == 0 {
		e.Labels["pod-template-hash"] = fmt.Sprint(w.IntN(3))
	}
	e.Host = "host" // so that policies apply
	// Few addresses, so that some are had by several.
	e.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(slices.Index(w.sites, s)), byte(1 + w.IntN(12))})}
	if w.IntN(5) == 0 {
		e.Ports = []policy.NamedPort{{Name: "http", Protocol: policy.TCP, Port: int32(80 + w.IntN(2))}}
	}
	return e
}

func (w *world) selector() *policy.Selector {
	s := &policy.Selector{}
	switch w.IntN(4) {
	case 0:
	case 1:
		s.MatchLabels = map[string]string{"app": pick(w.Rand, "web", "db")}
	case 2:
		s.MatchExpressions = []policy.Requirement{{Key: "tier", Operator: pick(w.Rand, "Exists", "DoesNotExist")}, {Key: "app", Operator: "In", Values: []string{"web", "db"}}}
	case 3:
		s.MatchExpressions = []policy.Requirement{{Key: "app", Operator: "NotIn", Values: []string{"web"}}}
	}
	return s
}

func (w *world) newPolicy() {
	p := w.randomPolicy(true)
	w.policies[p.UID] = p
	out := &wire.Policy{UID: p.UID, Object: []byte("{}")}
	for _, g := range peers.Groups(&p) {
		out.Groups = append(out.Groups, g.ID)
		w.hub.Want(g)
	}
	w.wanted[p.UID] = out
}

// randomPolicy is a policy of the hub, or of a member.
func (w *world) randomPolicy(hubs bool) policy.Policy {
	w.next++
	p := policy.Policy{Kind: policy.AntreaClusterNetworkPolicy, Name: fmt.Sprintf("p%d", w.next), UID: fmt.Sprintf("u%d", w.next), Priority: 5, Set: hubs}
	all := &policy.Selector{}
	p.AppliedTo = []policy.AppliedTo{{PodSelector: all, NamespaceSelector: all}}
	if w.IntN(3) == 0 {
		p.Kind, p.Namespace = policy.AntreaNetworkPolicy, pick(w.Rand, "shop", "ops")
		p.AppliedTo = []policy.AppliedTo{{PodSelector: all}}
	}
	var peer policy.Peer
	switch w.IntN(7) {
	case 6:
		w.toServices(&p)
		return p
	case 0:
		peer.NodeSelector = w.selector()
		if w.IntN(2) == 0 {
			peer.NodeSelector.MatchExpressions = append(peer.NodeSelector.MatchExpressions, policy.Requirement{Key: setv1alpha1.LabelClusterName, Operator: "In", Values: []string{"east"}})
		}
	case 1:
		peer.ServiceAccount = &policy.NamespacedName{Namespace: pick(w.Rand, "shop", "ops"), Name: "web"}
	case 2:
		peer.ExternalEntitySelector = w.selector()
	default:
		peer.PodSelector = w.selector()
	}
	if peer.NodeSelector == nil && peer.ServiceAccount == nil && w.IntN(2) == 0 {
		peer.NamespaceSelector = &policy.Selector{}
		switch w.IntN(4) {
		case 0:
			peer.NamespaceSelector.MatchLabels = map[string]string{"team": "a"}
		case 1:
			peer.NamespaceSelector.MatchLabels = map[string]string{setv1alpha1.LabelClusterName: pick(w.Rand, "east", "west")}
		case 2:
			peer.NamespaceSelector.MatchExpressions = []policy.Requirement{{Key: "set.nephele.io/env", Operator: "NotIn", Values: []string{"test"}}}
		}
	}
	peer.Scope = pick(w.Rand, "", "Cluster", peers.ScopeClusterSet, peers.ScopeClusterSet)
	p.Ingress = []policy.Rule{{Action: policy.Allow, Name: "r", Peers: []policy.Peer{peer}}}
	return p
}

// holds is the meaning of a selector, told without the engine.
func holds(s *policy.Selector, labels map[string]string) bool {
	if s == nil {
		return true
	}
	for k, v := range s.MatchLabels {
		if labels[k] != v {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		v, has := labels[r.Key]
		ok := map[string]bool{"In": has && slices.Contains(r.Values, v), "NotIn": !has || !slices.Contains(r.Values, v), "Exists": has, "DoesNotExist": !has}[r.Operator]
		if !ok {
			return false
		}
	}
	return true
}

// expect returns the addresses that a peer of a policy means in a member, found without any engine.
func (w *world) expect(s *site, p *policy.Policy) map[string]bool {
	peer, out := &p.Ingress[0].Peers[0], map[string]bool{}
	for _, o := range w.sites {
		if o != s && peer.Scope != peers.ScopeClusterSet {
			continue
		}
		for ref, e := range o.entities {
			shown := claims.Matches(o.visible, ref.Namespace) && o.namespaces[ref.Namespace] != nil
			if ref.Kind == policy.KindNode {
				shown = slices.Contains(o.visible, "*")
			}
			if o != s && !p.Set && !shown || e.HostNetwork {
				continue
			}
			labels := maps.Clone(e.Labels)
			given := peers.Given(o.name, o.labels)
			var is bool
			switch {
			case peer.NodeSelector != nil:
				maps.Copy(labels, given)
				is = ref.Kind == policy.KindNode && holds(peer.NodeSelector, labels)
			case peer.ServiceAccount != nil:
				is = ref.Kind == policy.KindPod && ref.Namespace == peer.ServiceAccount.Namespace && e.ServiceAccount == peer.ServiceAccount.Name &&
					(o == s || o.namespaces[ref.Namespace] != nil)
			default:
				kind, selector := policy.KindPod, peer.PodSelector
				if peer.ExternalEntitySelector != nil {
					kind, selector = policy.KindExternalEntity, peer.ExternalEntitySelector
				}
				is = ref.Kind == kind && holds(selector, e.Labels)
				known := o.namespaces[ref.Namespace]
				switch n := peer.NamespaceSelector; {
				case n == nil && p.Namespace != "":
					is = is && ref.Namespace == p.Namespace && (o == s || known != nil)
				case n == nil || len(n.MatchLabels)+len(n.MatchExpressions) == 0:
				default:
					all := maps.Clone(known)
					if all != nil {
						maps.Copy(all, given)
					}
					is = is && known != nil && holds(n, all)
				}
			}
			if is {
				out[e.Addresses[0].String()] = true
			}
		}
	}
	return out
}

// got returns the addresses that a peer of a policy means, as a member's enforcers receive them.
func (w *world) got(s *site, uid string) map[string]bool {
	out := map[string]bool{}
	l := s.engine.Listing()
	for _, p := range l.Policies {
		if p.Source.UID != uid {
			continue
		}
		for _, g := range l.AddressGroups {
			if slices.Contains(p.Rules[0].AddressGroups, g.Name) {
				for _, m := range g.Members {
					for _, a := range m.IPs {
						out[a.String()] = true
					}
				}
			}
		}
	}
	return out
}

// settle connects everybody, and lets all happen that is under way.
func (w *world) settle() {
	for _, s := range w.sites {
		if s.stream == nil {
			w.connect(s)
		}
	}
	for quiet := 0; quiet < 10; {
		quiet++
		for _, s := range w.sites {
			if w.move(s) {
				quiet = 0
			}
		}
	}
}

// TestUnionIsWhatMembersEnforce: whatever was cut, lost and restarted, in the end every member
// enforces what the policies mean over all clusters; and meanwhile a policy without scope never
// means anybody of another cluster.
func TestUnionIsWhatMembersEnforce(t *testing.T) {
	resumed := 0
	for world := range 60 {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			w := newWorld(t, rand.New(rand.NewPCG(seed.Of(t), 1)))
			for range 6 {
				for range 25 {
					w.change()
					for range w.IntN(4) {
						w.move(pick(w.Rand, w.sites...))
					}
					if w.IntN(4) == 0 {
						if s := pick(w.Rand, w.sites...); s.stream == nil {
							w.connect(s)
						}
					}
				}
				w.local()
				w.settle()
				w.local()
				for _, s := range w.sites {
					s.engine.Commit()
					all := maps.Clone(w.policies)
					maps.Copy(all, s.own)
					for uid, p := range all {
						if len(p.Egress) > 0 {
							w.services(s, &p)
							continue
						}
						if got, want := w.got(s, uid), w.expect(s, &p); !maps.Equal(got, want) {
							t.Fatalf("%s, policy %s %+v: %v, want %v", s.name, uid, p.Ingress[0].Peers[0], got, want)
						}
					}
					if extra := len(s.policies) - len(w.policies); extra != 0 {
						t.Fatalf("%s has %d policies too many", s.name, extra)
					}
				}
			}
			resumed += w.resumed
		})
	}
	if resumed < 60 {
		t.Errorf("only %d streams went on where another had ended", resumed)
	}
}

// local checks policies without scope.
func (w *world) local() {
	for i, s := range w.sites {
		s.engine.Commit()
		all := maps.Clone(w.policies)
		maps.Copy(all, s.own)
		for uid, p := range all {
			if len(p.Egress) > 0 || p.Ingress[0].Peers[0].Scope == peers.ScopeClusterSet {
				continue
			}
			for a := range w.got(s, uid) {
				if netip.MustParseAddr(a).As4()[2] != byte(i) {
					w.Fatalf("%s: policy %s without scope means %s of another cluster", s.name, uid, a)
				}
			}
		}
	}
}
