// Package union holds what a hub knows of all its members: their workloads in one engine, and the
// remote groups in use, by cluster.
//
// It owns the claims of members, accepted or not. The certificate names the member, and a member
// cannot report about another one. What is known of a member stays until it reports otherwise, or
// until its Cluster is gone.
//
// Everything here is pure: equal calls give equal answers. A Union is not safe for concurrent use.
// Lists of members that it hands out never change.
package union

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// Union is the whole of what members have.
type Union struct {
	engine   *compute.Engine
	clusters map[string]*cluster
	// names are the engine's names of groups by our ids; ids are the other way round.
	names map[string]string
	ids   map[string]map[string]struct{}
	parts map[string]map[string]*part // by the engine's name, and cluster
	sizes map[string]int              // by the engine's name
	// asked says how many members have asked for a group for their own policies.
	asked map[string]int
	// unwanted are groups that go with the next Commit, unless they are wanted again.
	unwanted map[string]struct{}
}

// cluster is one member.
type cluster struct {
	name   string
	given  map[string]string
	bounds *claims.Bounds
	// labels are the sets by the numbers that the member has given them, sets all that are in use.
	labels map[int]*labelSet
	sets   map[string]*labelSet
	// namespaces and entities are its claims.
	namespaces map[string]*namespaceClaim
	entities   map[wire.Ref]*entityClaim
	// interests are what it has asked for, by the id of the group; granted is how many of them are.
	interests map[string]*interest
	granted   int
	// claimed are regions of cloud accounts, sorted; accounts are the accepted ones of them, and
	// foreign says why one is not.
	claimed, accounts []string
	foreign           string
	// listing counts the listings; claims that an ended one did not repeat are gone. heard says
	// that there was a whole one.
	listing       uint32
	listed, heard bool
	// recalled says that some of it is from a record, version counts the changes.
	recalled bool
	version  uint64

	believed, bad  int
	believedSpaces int
}

// labelSet is a set of labels, and how many have it: claims, and the number.
type labelSet struct {
	text   string
	labels map[string]string
	uses   int
}

// noLabels is what they have that have none. It is not counted.
var noLabels = &labelSet{}

func (c *cluster) use(s *labelSet) *labelSet {
	if s != noLabels {
		s.uses++
	}
	return s
}

func (c *cluster) release(s *labelSet) {
	if s == nil || s == noLabels {
		return
	}
	if s.uses--; s.uses == 0 {
		delete(c.sets, s.text)
	}
}

// number gives a number to a set of labels. There are at most twice as many sets as the member may
// have, because a listing may begin while all of the former one are still in use.
func (c *cluster) number(in *wire.LabelSet) error {
	c.release(c.labels[in.ID])
	delete(c.labels, in.ID)
	if err := in.Check(); err != nil {
		return err
	}
	if in.ID < 1 || in.ID > c.bounds.LabelSets {
		return fmt.Errorf("more than %d sets of labels", c.bounds.LabelSets)
	}
	text, err := json.Marshal(in.Labels)
	if err != nil {
		return err
	}
	s := c.sets[string(text)]
	if s == nil {
		if len(c.sets) >= 2*c.bounds.LabelSets {
			return fmt.Errorf("more than %d sets of labels", c.bounds.LabelSets)
		}
		s = &labelSet{text: string(text), labels: in.Labels}
		c.sets[s.text] = s
	}
	c.labels[in.ID] = c.use(s)
	return nil
}

func (c *cluster) forgetNumbers() {
	for _, s := range c.labels {
		c.release(s)
	}
	clear(c.labels)
}

// set finds the labels with a number; 0 means none.
func (c *cluster) set(number int) (*labelSet, bool) {
	if number == 0 {
		return noLabels, true
	}
	s, known := c.labels[number]
	return s, known
}

type namespaceClaim struct {
	wire.Namespace
	set     *labelSet
	listing uint32
	refused string
}

type entityClaim struct {
	wire.Entity
	set     *labelSet
	listing uint32
	refused string
}

// interest is a group that a member has asked for. It is not computed while it is refused.
type interest struct {
	Interest
	listing uint32
}

// Interest is a group that a member's own policies name.
type Interest struct {
	Group peers.Group
	// Has says that the member has had members of it.
	Has bool
	// Refused is why it is not computed: a reason in one word, and a sentence.
	Refused, Message string
}

// part is what one cluster has in one group.
type part struct {
	by   map[policy.EntityRef]string
	list []string // sorted, each once
}

// Changed names a part of a group that is not what it was.
type Changed struct{ Group, Cluster string }

// Counts are how much of a member is known.
type Counts struct {
	Namespaces, Entities, Refused int
	// Heard says that there was a whole listing.
	Heard bool
}

// New returns an empty Union.
func New() *Union {
	return &Union{
		engine: compute.New(compute.Options{}), clusters: map[string]*cluster{},
		names: map[string]string{}, ids: map[string]map[string]struct{}{}, parts: map[string]map[string]*part{}, unwanted: map[string]struct{}{},
		sizes: map[string]int{}, asked: map[string]int{},
	}
}

// PutCluster adds a member, or gives it other labels and bounds, by which all its claims are judged
// again.
func (u *Union) PutCluster(name string, labels map[string]string, bounds *claims.Bounds) {
	c := u.clusters[name]
	if c == nil {
		c = &cluster{
			name: name, labels: map[int]*labelSet{}, sets: map[string]*labelSet{}, namespaces: map[string]*namespaceClaim{}, entities: map[wire.Ref]*entityClaim{},
			interests: map[string]*interest{},
		}
		u.clusters[name] = c
	}
	c.given, c.bounds = peers.Given(name, labels), bounds
	c.judgeAccounts()
	u.judgeInterests(c)
	for _, n := range c.namespaces {
		u.judgeNamespace(c, n)
	}
	for _, ref := range slices.SortedFunc(maps.Keys(c.entities), compareRefs) {
		u.judgeEntity(c, c.entities[ref])
	}
}

// DropCluster forgets a member.
func (u *Union) DropCluster(name string) {
	c := u.clusters[name]
	if c == nil {
		return
	}
	for _, e := range c.entities {
		u.forgetEntity(c, e)
	}
	for _, n := range c.namespaces {
		u.forgetNamespace(c, n)
	}
	for id := range c.interests {
		u.forgetInterest(c, id)
	}
	delete(u.clusters, name)
}

// Counts returns how much is known of a member.
func (u *Union) Counts(name string) Counts {
	c := u.clusters[name]
	if c == nil {
		return Counts{}
	}
	return Counts{Namespaces: c.believedSpaces, Entities: c.believed, Refused: c.bad, Heard: c.heard}
}

// Members returns the names of all members, sorted, and whether there was a whole listing of each.
func (u *Union) Members() (names []string, heard map[string]bool) {
	heard = make(map[string]bool, len(u.clusters))
	for name, c := range u.clusters {
		names, heard[name] = append(names, name), c.heard
	}
	slices.Sort(names)
	return names, heard
}

// Entity returns what is believed of an entity of a member.
func (u *Union) Entity(cluster string, ref wire.Ref) (wire.Entity, bool) {
	c := u.clusters[cluster]
	if c == nil || c.entities[ref] == nil || c.entities[ref].refused != "" {
		return wire.Entity{}, false
	}
	return c.entities[ref].Entity, true
}

// Each calls yield with what is believed of each entity of a member, and its labels, in no order,
// until it returns false. Nothing of it may be changed.
func (u *Union) Each(cluster string, yield func(e *wire.Entity, labels map[string]string) bool) {
	c := u.clusters[cluster]
	if c == nil {
		return
	}
	for _, e := range c.entities {
		if e.refused == "" && !yield(&e.Entity, e.set.labels) {
			return
		}
	}
}

// Recalled reports whether what is known of a member that has not been heard is from a record.
func (u *Union) Recalled(name string) bool {
	c := u.clusters[name]
	return c != nil && c.recalled && !c.heard
}

// Expired implements outbox.View: to a Union nothing is too old.
func (*Union) Expired(string, string) bool { return false }

// Version is another one whenever something new is believed of a member, or something no more.
func (u *Union) Version(name string) uint64 {
	if c := u.clusters[name]; c != nil {
		return c.version
	}
	return 0
}

// Recall takes over what Records has returned of a member that has not been heard. It is judged as
// if the member said it.
func (u *Union) Recall(name string, records []*wire.Up) {
	c := u.clusters[name]
	if c == nil || c.heard || c.listing > 0 {
		return
	}
	for _, r := range records {
		u.Apply(name, &wire.Up{LabelSets: r.LabelSets, Namespaces: r.Namespaces, Entities: r.Entities})
		c.forgetNumbers()
	}
	c.recalled = true
}

// Records returns what is believed of a member in parts, each in records of its own, so that the
// same entity is in the same part while there are as many parts.
func (u *Union) Records(name string, parts int) [][]*wire.Up {
	c := u.clusters[name]
	if c == nil {
		return nil
	}
	out := make([][]*wire.Up, parts)
	sets, sizes := make([]map[*labelSet]int, parts), make([]int, parts)
	record := func(text string, set *labelSet, size int) (*wire.Up, int) {
		for k, v := range set.labels {
			size += len(k) + len(v) + 8
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(text))
		n := int(h.Sum32() % uint32(parts))
		if sizes[n] += size; len(out[n]) == 0 || sizes[n] > recordSize {
			out[n], sets[n], sizes[n] = append(out[n], &wire.Up{}), map[*labelSet]int{}, size
		}
		r := out[n][len(out[n])-1]
		if set == noLabels {
			return r, 0
		}
		if sets[n][set] == 0 {
			sets[n][set] = len(sets[n]) + 1
			r.LabelSets = append(r.LabelSets, wire.LabelSet{ID: sets[n][set], Labels: set.labels})
		}
		return r, sets[n][set]
	}
	for _, key := range slices.Sorted(maps.Keys(c.namespaces)) {
		if n := c.namespaces[key]; n.refused == "" {
			r, id := record(key, n.set, len(key)+40)
			r.Namespaces = append(r.Namespaces, wire.Namespace{Name: n.Name, Labels: id})
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(c.entities), compareRefs) {
		if e := c.entities[ref]; e.refused == "" {
			r, id := record(string(ref.Kind)+ref.Namespace+"/"+ref.Name, e.set, sizeOf(&e.Entity))
			told := e.Entity
			told.Labels = id
			r.Entities = append(r.Entities, told)
		}
	}
	return out
}

// recordSize is where a record of a part ends, by what its texts have in bytes: even if all of them
// are written as escapes, of six bytes each, it fits into a line.
const recordSize = wire.MostLine / 8

func sizeOf(e *wire.Entity) int {
	size := 80 + len(e.Namespace) + len(e.Name) + len(e.Account) + 48*len(e.Addresses)
	for _, p := range e.Ports {
		size += 40 + len(p.Name)
	}
	return size
}

// Refused returns some of the claims of a member that are not believed, in words.
func (u *Union) Refused(name string, most int) []string {
	c := u.clusters[name]
	if c == nil || c.bad == 0 && c.foreign == "" {
		return nil
	}
	var out []string
	if c.foreign != "" {
		out = append(out, "account "+c.foreign)
	}
	for _, n := range c.namespaces {
		if n.refused != "" {
			out = append(out, "Namespace "+n.Name+": "+n.refused)
		}
	}
	for _, e := range c.entities {
		if e.refused != "" {
			out = append(out, Words(e.Ref)+": "+e.refused)
		}
	}
	slices.Sort(out)
	return out[:min(most, len(out))]
}

// Words names an entity for people.
func Words(r wire.Ref) string {
	kind := map[wire.Kind]string{wire.Pod: "Pod", wire.Machine: "ExternalEntity", wire.Node: "Node", wire.Service: "exported Service"}[r.Kind]
	switch {
	case r.Namespace == "":
		return kind + " " + r.Name
	case r.Kind == wire.Service:
		part := strings.TrimPrefix(r.Name, r.ServiceOf()+".")
		if node, is := strings.CutPrefix(part, wire.PartOfNode); is {
			part = "Node " + node
		} else if address, is := strings.CutPrefix(part, wire.PartOfSlice); is {
			part = "in an EndpointSlice: " + address
		} else if part = "Pod " + part; strings.HasSuffix(part, wire.PartOfBalancers) {
			part = "its load balancers"
		}
		return kind + " " + r.Namespace + "/" + r.ServiceOf() + ", " + part
	}
	return kind + " " + r.Namespace + "/" + r.Name
}

// Apply takes over a record of a member. It returns what in it is no claim at all; claims that are
// not believed are kept, and told by Refused.
func (u *Union) Apply(name string, r *wire.Up) []string {
	c := u.clusters[name]
	if c == nil {
		return []string{"nobody knows the cluster"}
	}
	var wrong []string
	if r.Whole {
		c.listing++
		c.listed = true
		c.forgetNumbers()
	}
	for i := range r.LabelSets {
		if err := c.number(&r.LabelSets[i]); err != nil {
			wrong = append(wrong, fmt.Sprintf("labels %d: %v", r.LabelSets[i].ID, err))
		}
	}
	for i := range r.Namespaces {
		if err := u.claimNamespace(c, &r.Namespaces[i]); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	for i := range r.Entities {
		if err := u.claimEntity(c, &r.Entities[i]); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	for _, ref := range r.Gone {
		if e := c.entities[ref]; e != nil {
			u.forgetEntity(c, e)
		}
	}
	for _, gone := range r.GoneNamespaces {
		if n := c.namespaces[gone]; n != nil {
			u.forgetNamespace(c, n)
		}
	}
	for _, id := range r.GoneInterests {
		u.forgetInterest(c, id)
	}
	for i := range r.Interests {
		if err := u.ask(c, &r.Interests[i]); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if len(r.GoneInterests)+len(r.Interests) > 0 {
		u.judgeInterests(c)
	}
	if r.Accounts != nil {
		if err := u.claimAccounts(c, *r.Accounts); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if r.Listed && c.listed {
		u.endListing(c)
	}
	return wrong
}

// claimAccounts takes over which regions of accounts a member works on.
func (u *Union) claimAccounts(c *cluster, all []string) error {
	if len(all) > wire.MostAccounts {
		return fmt.Errorf("%d regions of accounts, want at most %d", len(all), wire.MostAccounts)
	}
	for _, a := range all {
		if err := wire.CheckAccount(a); err != nil {
			return err
		}
	}
	c.claimed = slices.Compact(slices.Sorted(slices.Values(all)))
	c.judgeAccounts()
	return nil
}

func (c *cluster) judgeAccounts() {
	c.accounts, c.foreign = nil, ""
	for _, a := range c.claimed {
		if err := c.bounds.Account(a); err != nil {
			c.foreign = err.Error()
			continue
		}
		c.accounts = append(c.accounts, a)
	}
}

// Shared are the regions of accounts that two members both work on.
func (u *Union) Shared(a, b string) []string {
	x, y := u.clusters[a], u.clusters[b]
	if x == nil || y == nil {
		return nil
	}
	var out []string
	for _, account := range x.accounts {
		if _, is := slices.BinarySearch(y.accounts, account); is {
			out = append(out, account)
		}
	}
	return out
}

// endListing forgets what a listing did not repeat.
func (u *Union) endListing(c *cluster) {
	for _, e := range c.entities {
		if e.listing != c.listing {
			u.forgetEntity(c, e)
		}
	}
	for _, n := range c.namespaces {
		if n.listing != c.listing {
			u.forgetNamespace(c, n)
		}
	}
	for id, i := range c.interests {
		if i.listing != c.listing {
			u.forgetInterest(c, id)
		}
	}
	u.judgeInterests(c)
	c.listed, c.heard = false, true
	// What was refused for want of room may have some now.
	for _, ref := range slices.SortedFunc(maps.Keys(c.entities), compareRefs) {
		if e := c.entities[ref]; e.refused != "" {
			u.judgeEntity(c, e)
		}
	}
}

func compareRefs(a, b wire.Ref) int {
	if c := strings.Compare(string(a.Kind), string(b.Kind)); c != 0 {
		return c
	}
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// mostClaims bounds what is kept of a member besides what is believed: one that claims more is not
// listened to.
func (c *cluster) mostClaims() int { return 2*c.bounds.Entities + 1000 }

func (u *Union) claimNamespace(c *cluster, in *wire.Namespace) error {
	set, known := c.set(in.Labels)
	if !known {
		return fmt.Errorf("of Namespace %s: labels that were not told", shown(in.Name))
	}
	n := c.namespaces[in.Name]
	if n == nil {
		if err := in.Check(); err != nil {
			return err
		}
		if len(c.namespaces) >= c.mostClaims() {
			return fmt.Errorf("as Namespace %s: too many of them", in.Name)
		}
		n = &namespaceClaim{refused: "new"}
		c.namespaces[in.Name] = n
		c.bad++
	}
	former := n.set
	n.Namespace, n.set, n.listing = *in, c.use(set), c.listing
	c.release(former)
	u.judgeNamespace(c, n)
	return nil
}

func (u *Union) claimEntity(c *cluster, in *wire.Entity) error {
	set, known := c.set(in.Labels)
	if !known {
		return fmt.Errorf("%s: labels that were not told", Words(in.Ref))
	}
	e := c.entities[in.Ref]
	if e == nil {
		if err := in.Ref.Check(); err != nil {
			return err
		}
		if len(c.entities) >= c.mostClaims() {
			return fmt.Errorf("%s: too many of them", Words(in.Ref))
		}
		e = &entityClaim{refused: "new"}
		c.entities[in.Ref] = e
		c.bad++
	}
	former := e.set
	e.Entity, e.set, e.listing = *in, c.use(set), c.listing
	c.release(former)
	u.judgeEntity(c, e)
	return nil
}

// believe counts a claim by what it was and is.
func believe(before, now string, good, bad *int) {
	if (before == "") == (now == "") {
		return
	}
	if now == "" {
		*good++
		*bad--
	} else {
		*good--
		*bad++
	}
}

func (u *Union) judgeNamespace(c *cluster, n *namespaceClaim) {
	before := n.refused
	n.refused = ""
	if err := c.bounds.Namespace(&n.Namespace, n.set.labels); err != nil {
		n.refused = err.Error()
	}
	believe(before, n.refused, &c.believedSpaces, &c.bad)
	c.version++
	if n.refused != "" {
		if before == "" {
			u.engine.DeleteNamespace(c.name + "/" + n.Name)
		}
		return
	}
	labels := map[string]string{}
	maps.Copy(labels, n.set.labels)
	maps.Copy(labels, c.given)
	labels["kubernetes.io/metadata.name"] = n.Name
	if c.bounds.Visible(n.Name) {
		labels[peers.VisibleLabel] = ""
	}
	u.engine.PutNamespace(policy.Namespace{Name: c.name + "/" + n.Name, Labels: labels})
}

func (u *Union) judgeEntity(c *cluster, e *entityClaim) {
	before := e.refused
	e.refused = ""
	if err := c.bounds.Entity(&e.Entity, e.set.labels); err != nil {
		e.refused = err.Error()
	} else if before != "" && c.believed >= c.bounds.Entities {
		e.refused = fmt.Sprintf("it has %d already, which is as many as its spec.limits.entities allows", c.believed)
	}
	believe(before, e.refused, &c.believed, &c.bad)
	c.version++
	ref := c.ref(e.Ref)
	if e.refused != "" {
		if before == "" {
			u.engine.DeleteEntity(ref)
		}
		return
	}
	if e.Kind == wire.Service {
		u.engine.PutEntity(c.serves(e))
		return
	}
	in := policy.Entity{EntityRef: ref, Labels: e.set.labels, Addresses: e.Addresses, ServiceAccount: e.Account}
	if e.Kind == wire.Pod && e.Account == "" {
		in.ServiceAccount = wire.DefaultAccount
	}
	for _, p := range e.Ports {
		in.Ports = append(in.Ports, policy.NamedPort{Name: p.Name, Protocol: policy.Protocol(p.Protocol), Port: p.Port})
	}
	if e.Kind == wire.Node {
		in.Labels = maps.Clone(e.set.labels)
		if in.Labels == nil {
			in.Labels = map[string]string{}
		}
		maps.Copy(in.Labels, c.given)
		if c.bounds.NodesVisible() {
			in.Labels[peers.VisibleLabel] = ""
		}
	}
	u.engine.PutEntity(in)
}

// serves is a part of an exported Service as what only groups of this Service choose.
func (c *cluster) serves(e *entityClaim) policy.Entity {
	service := policy.NamespacedName{Namespace: e.Namespace, Name: e.ServiceOf()}
	out := policy.Entity{EntityRef: c.ref(e.Ref), Labels: peers.LabelsOfService(service, c.bounds.Visible(e.Namespace)), Addresses: e.Addresses}
	for _, p := range e.Ports {
		out.Ports = append(out.Ports, policy.NamedPort{Name: peers.PortOf(service), Protocol: policy.Protocol(p.Protocol), Port: p.Port})
	}
	return out
}

// ref is an entity of a member among the entities of all. No name of a Cluster holds a slash.
func (c *cluster) ref(r wire.Ref) policy.EntityRef {
	switch r.Kind {
	case wire.Node:
		return policy.EntityRef{Kind: policy.KindNode, Name: c.name + "/" + r.Name}
	case wire.Service:
		return policy.EntityRef{Kind: policy.KindRemote, Name: c.name + "/" + r.Namespace + "/" + r.Name}
	}
	kind := policy.KindPod
	if r.Kind == wire.Machine {
		kind = policy.KindExternalEntity
	}
	return policy.EntityRef{Kind: kind, Namespace: c.name + "/" + r.Namespace, Name: r.Name}
}

// clusterOf is whose an entity is.
func clusterOf(r policy.EntityRef) string {
	if r.Kind == policy.KindNode || r.Kind == policy.KindRemote {
		name, _, _ := strings.Cut(r.Name, "/")
		return name
	}
	name, _, _ := strings.Cut(r.Namespace, "/")
	return name
}

func (u *Union) forgetEntity(c *cluster, e *entityClaim) {
	delete(c.entities, e.Ref)
	c.release(e.set)
	if e.refused != "" {
		c.bad--
		return
	}
	c.believed--
	c.version++
	u.engine.DeleteEntity(c.ref(e.Ref))
}

func (u *Union) forgetNamespace(c *cluster, n *namespaceClaim) {
	delete(c.namespaces, n.Name)
	c.release(n.set)
	if n.refused != "" {
		c.bad--
		return
	}
	c.believedSpaces--
	c.version++
	u.engine.DeleteNamespace(c.name + "/" + n.Name)
}

// Want begins to compute a group.
func (u *Union) Want(g peers.Group) {
	delete(u.unwanted, g.ID)
	if _, known := u.names[g.ID]; known {
		return
	}
	u.names[g.ID] = "" // until it is computed
	nobody := policy.AppliedTo{NodeSelector: &policy.Selector{MatchLabels: map[string]string{"set.nephele.io/nobody": "nobody"}}}
	u.engine.PutPolicy(policy.Policy{
		Kind: policy.AntreaClusterNetworkPolicy, Name: g.ID, UID: g.ID, Priority: 1, AppliedTo: []policy.AppliedTo{nobody},
		Ingress: []policy.Rule{{Action: policy.Allow, Name: "peer", Peers: []policy.Peer{g.Peer}}},
	})
}

// Unwant ends that.
func (u *Union) Unwant(id string) {
	if _, known := u.names[id]; known {
		u.unwanted[id] = struct{}{}
	}
}

func (u *Union) forgetName(id string) {
	name := u.names[id]
	delete(u.ids[name], id)
	if len(u.ids[name]) == 0 {
		delete(u.ids, name)
	}
}

// Part returns what a cluster has in a group: members as package wire writes them, sorted, each
// once.
func (u *Union) Part(id, cluster string) []string {
	if p := u.parts[u.names[id]][cluster]; p != nil {
		return p.list
	}
	return nil
}

// Size is how many members a group has in all clusters.
func (u *Union) Size(id string) int { return u.sizes[u.names[id]] }

// Clusters returns the clusters that have members in a group, sorted.
func (u *Union) Clusters(id string) []string {
	var out []string
	for name, p := range u.parts[u.names[id]] {
		if len(p.list) > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Commit brings groups up to date, and returns which parts are not what they were, sorted.
func (u *Union) Commit() []Changed {
	for id := range u.unwanted {
		u.engine.DeletePolicy(id)
		u.forgetName(id)
		delete(u.names, id)
	}
	clear(u.unwanted)
	changes := u.engine.CommitChanges()
	changed := map[Changed]struct{}{}
	all := func(id, name string) {
		for cluster := range u.parts[name] {
			changed[Changed{id, cluster}] = struct{}{}
		}
	}
	var fresh []string
	for p := range changes.Policies() {
		id := p.Policy.Source.UID
		if _, wanted := u.names[id]; p.Change == policy.Removed || !wanted {
			continue
		}
		name := p.Policy.Rules[0].AddressGroups[0]
		u.names[id] = name
		if u.ids[name] == nil {
			u.ids[name] = map[string]struct{}{}
		}
		u.ids[name][id] = struct{}{}
		fresh = append(fresh, id)
	}
	for g := range changes.Groups(policy.AddressGroup) {
		if g.Change == policy.Removed {
			delete(u.parts, g.Name)
			delete(u.sizes, g.Name)
			continue
		}
		for cluster := range u.change(g) {
			for id := range u.ids[g.Name] {
				changed[Changed{id, cluster}] = struct{}{}
			}
		}
	}
	for _, id := range fresh {
		all(id, u.names[id])
	}
	return slices.SortedFunc(maps.Keys(changed), func(a, b Changed) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		return strings.Compare(a.Cluster, b.Cluster)
	})
}

// change applies the change of one group, and returns the clusters whose part it is about.
func (u *Union) change(g *policy.GroupDelta) map[string]struct{} {
	parts := u.parts[g.Name]
	if parts == nil {
		parts = map[string]*part{}
		u.parts[g.Name] = parts
	}
	about := map[string]*edit{}
	of := func(m *policy.Member) (*part, *edit) {
		name := clusterOf(m.EntityRef)
		if parts[name] == nil {
			parts[name] = &part{by: map[policy.EntityRef]string{}}
		}
		if about[name] == nil {
			about[name] = &edit{}
		}
		return parts[name], about[name]
	}
	for _, m := range g.Removed {
		p, e := of(m)
		e.remove(p, m.EntityRef)
	}
	for _, m := range g.Added {
		p, e := of(m)
		e.remove(p, m.EntityRef)
		if len(m.IPs) == 0 {
			continue
		}
		text := textOf(m)
		p.by[m.EntityRef] = text
		e.added = append(e.added, text)
	}
	out := map[string]struct{}{}
	for name, e := range about {
		p, before := parts[name], len(parts[name].list)
		if p.apply(e) {
			out[name] = struct{}{}
		}
		u.sizes[g.Name] += len(p.list) - before
		if len(p.by) == 0 {
			delete(parts, name)
		}
	}
	return out
}

func textOf(m *policy.Member) string {
	out := wire.RemoteMember{Addresses: m.IPs}
	for _, p := range m.Ports {
		out.Ports = append(out.Ports, wire.Port{Name: p.Name, Protocol: string(p.Protocol), Port: p.Port})
	}
	return out.String()
}

// edit is what is done to one part.
type edit struct{ added, removed []string }

func (e *edit) remove(p *part, ref policy.EntityRef) {
	if text, there := p.by[ref]; there {
		delete(p.by, ref)
		e.removed = append(e.removed, text)
	}
}

// apply makes the list anew, and reports whether it is another one. A text stays while any entity
// has it.
func (p *part) apply(e *edit) bool {
	added, removed := map[string]struct{}{}, map[string]struct{}{}
	for _, t := range e.added {
		added[t] = struct{}{}
	}
	for _, t := range e.removed {
		if _, again := added[t]; !again {
			removed[t] = struct{}{}
		}
	}
	if len(removed) > 0 { // whose else it is, if anybody's
		for _, t := range p.by {
			delete(removed, t)
			if len(removed) == 0 {
				break
			}
		}
	}
	for t := range added {
		if _, there := slices.BinarySearch(p.list, t); there {
			delete(added, t)
		}
	}
	if len(added)+len(removed) == 0 {
		return false
	}
	fresh := slices.Sorted(maps.Keys(added))
	list := make([]string, 0, len(p.list)+len(fresh))
	for _, t := range p.list {
		for len(fresh) > 0 && fresh[0] < t {
			list, fresh = append(list, fresh[0]), fresh[1:]
		}
		if _, gone := removed[t]; !gone {
			list = append(list, t)
		}
	}
	p.list = append(list, fresh...)
	return true
}

func shown(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "..."
	}
	return s
}
