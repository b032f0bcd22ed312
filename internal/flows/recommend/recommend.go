// Package recommend writes the smallest policies that allow the traffic that was seen.
//
// It owns which label distinguishes machines, and how rows become rules. Its policies are staged:
// they are enforced only once a user removes the annotation. It promises that no row is left out in
// silence: every row that no rule can express is among the remarks. The caller proves with package
// judge, on the same rows, that the policies cut nothing that was seen.
//
// Everything is pure: no I/O, no clock, no goroutines.
package recommend

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/policy"
)

// Edge is what one machine of the namespace was seen to take from, or send to, another end.
type Edge struct {
	// Machine is the one at which it was seen.
	Machine   policy.EntityRef
	Direction cloud.Direction
	// Peer is the entity at the other end; empty for an address alone.
	Peer     policy.EntityRef
	Address  netip.Addr
	Protocol uint8
	Port     uint16
	// Connections counts what was seen.
	Connections int
	// Guessed tells that which end began is a guess.
	Guessed bool
}

// Options say what is to be written.
type Options struct {
	Namespace string
	// Keys are the labels that tell machines apart; empty chooses one.
	Keys []string
	// Egress writes rules for what machines send, too.
	Egress   bool
	Tier     string
	Priority float64
	// Outside are ranges that stand for the addresses in them.
	Outside []netip.Prefix
	// Since and Until are the window in which it was seen.
	Since, Until time.Time
}

// MostAddresses is how many addresses of the Internet a rule names; more are everybody there.
const MostAddresses = 32

// Result is what was written.
type Result struct {
	Policies []*v1beta1.NetworkPolicy
	// Keys are the labels that tell machines apart.
	Keys []string
	// Remarks are for people: what is wider than what was seen, what no rule says, and of which
	// machines nothing was seen.
	Remarks []string
}

// Policies writes policies of what was seen. Labels are the labels of all entities of the cluster.
func Policies(edges []Edge, entities map[policy.EntityRef]policy.Entity, o Options) Result {
	w := writer{options: o, entities: entities, groups: map[string]*group{}, labels: map[string]map[string]string{}, unnamed: map[policy.EntityRef]bool{}}
	for _, e := range edges {
		if e.Machine.Namespace == o.Namespace && (o.Egress || e.Direction == cloud.Ingress) {
			w.edges = append(w.edges, e)
		}
	}
	w.machines = w.all()
	w.keys = o.Keys
	if len(w.keys) == 0 {
		w.keys = []string{w.choose()}
	}
	for _, e := range w.edges {
		w.take(e)
	}
	out := Result{Keys: w.keys}
	for _, name := range slices.Sorted(maps.Keys(w.groups)) {
		out.Policies = append(out.Policies, w.write(w.groups[name]))
	}
	w.unseen()
	slices.Sort(w.notes)
	out.Remarks = slices.Compact(w.notes)
	return out
}

type writer struct {
	options  Options
	entities map[policy.EntityRef]policy.Entity
	machines []policy.EntityRef
	edges    []Edge
	keys     []string
	groups   map[string]*group
	// labels are those that each word of valuesOf stands for.
	labels map[string]map[string]string
	// unnamed are the machines without any label, which no selector can tell from others.
	unnamed map[policy.EntityRef]bool
	notes   []string
}

// group is what machines with the same labels have in common.
type group struct {
	name     string
	values   map[string]string
	kind     policy.EntityKind
	machines map[policy.EntityRef]bool
	// seen are the peers of each service, by direction.
	seen                 map[traffic]map[peer]bool
	connections, guesses int
}

// traffic is a service in a direction.
type traffic struct {
	direction cloud.Direction
	protocol  uint8
	port      uint16
}

// peer is an end that rules name: a group of machines, or a range of addresses.
type peer struct {
	namespace, values string
	kind              policy.EntityKind
	block             netip.Prefix
}

// all are the entities of the namespace that policies may select, sorted.
func (w *writer) all() []policy.EntityRef {
	var out []policy.EntityRef
	for ref, e := range w.entities {
		if ref.Namespace == w.options.Namespace && !e.Terminated && (ref.Kind == policy.KindExternalEntity || ref.Kind == policy.KindPod && !e.HostNetwork) {
			out = append(out, ref)
		}
	}
	slices.SortFunc(out, compareRefs)
	return out
}

func compareRefs(a, b policy.EntityRef) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// choose chooses the label with which what was seen takes the fewest rules, where a pair of
// machines that may talk and was not seen to counts as a half. All machines that were seen have to
// have it.
func (w *writer) choose() string {
	best, least := cloudv1alpha1.LabelOwnerVM, -1
	candidates := map[string]int{}
	taking := map[policy.EntityRef]bool{}
	for _, e := range w.edges {
		taking[e.Machine] = true
		if e.Peer.Namespace == w.options.Namespace && (e.Peer.Kind == policy.KindPod || e.Peer.Kind == policy.KindExternalEntity) {
			taking[e.Peer] = true
		}
	}
	for m := range taking {
		for key := range w.entities[m].Labels {
			if reports(key) {
				candidates[key]++
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(candidates)) {
		if candidates[key] < len(taking) {
			continue
		}
		if c := w.cost(key); least < 0 || c < least {
			best, least = key, c
		}
	}
	return best
}

// reports reports whether a label says what a machine is for. What the cloud numbers says nothing.
func reports(key string) bool {
	return !passing(key) && (strings.HasPrefix(key, cloudv1alpha1.LabelTagPrefix) || key == cloudv1alpha1.LabelCloudVMName || !strings.HasPrefix(key, cloudv1alpha1.LabelPrefix))
}

// passing reports whether a label is another one with every release, or for every Pod of a kind.
func passing(key string) bool {
	switch key {
	case "pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
		"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index", "controller-uid", "job-name":
		return true
	}
	return false
}

// cost counts rules twice and pairs that were not seen once, if a label tells machines apart.
func (w *writer) cost(key string) int {
	size := map[string]int{}
	for _, m := range w.machines {
		size[w.entities[m].Labels[key]]++
	}
	type rule struct {
		own, other string
		traffic
	}
	type pair struct {
		own, other policy.EntityRef
		traffic
	}
	rules, pairs := map[rule]bool{}, map[pair]bool{}
	for _, e := range w.edges {
		if e.Peer.Namespace != w.options.Namespace || e.Peer.Kind == 0 {
			continue // the same however machines are told apart, except for the subject
		}
		at := traffic{e.Direction, e.Protocol, e.Port}
		rules[rule{w.entities[e.Machine].Labels[key], w.entities[e.Peer].Labels[key], at}] = true
		pairs[pair{e.Machine, e.Peer, at}] = true
	}
	out := 2*len(rules) - len(pairs)
	for r := range rules {
		out += size[r.own] * size[r.other]
	}
	return out
}

// take adds an edge to the group of its machine.
func (w *writer) take(e Edge) {
	own, values := w.valuesOf(e.Machine)
	if len(values) == 0 { // an empty selector would select the whole namespace
		w.unnamed[e.Machine] = true
		return
	}
	g := w.groups[own]
	if g == nil {
		g = &group{name: own, values: values, kind: e.Machine.Kind, machines: map[policy.EntityRef]bool{}, seen: map[traffic]map[peer]bool{}}
		w.groups[own] = g
	}
	g.machines[e.Machine] = true
	g.connections += e.Connections
	if e.Guessed {
		g.guesses += e.Connections
	}
	at := traffic{e.Direction, e.Protocol, e.Port}
	if g.seen[at] == nil {
		g.seen[at] = map[peer]bool{}
	}
	g.seen[at][w.peerOf(e)] = true
}

// valuesOf are the labels that stand for a machine, in one word and as they are. A machine that
// lacks one of the labels is named alone.
func (w *writer) valuesOf(m policy.EntityRef) (string, map[string]string) {
	labels, out := w.entities[m].Labels, map[string]string{}
	for _, key := range w.keys {
		value, has := labels[key]
		if !has {
			out = map[string]string{}
			break
		}
		out[key] = value
	}
	if len(out) == 0 {
		for _, key := range []string{cloudv1alpha1.LabelOwnerVM, cloudv1alpha1.LabelOwnerService, cloudv1alpha1.LabelOwnerInterface} {
			if value, has := labels[key]; has {
				out[key] = value
				break
			}
		}
	}
	if len(out) == 0 { // nothing tells it from others but all its labels
		out = maps.Clone(labels)
		maps.DeleteFunc(out, func(key, _ string) bool { return passing(key) })
	}
	var words []string
	for _, key := range slices.Sorted(maps.Keys(out)) {
		words = append(words, key+"="+out[key])
	}
	word := m.Kind.String() + " " + strings.Join(words, ",")
	w.labels[word] = out
	return word, out
}

// peerOf is how a rule names the other end.
func (w *writer) peerOf(e Edge) peer {
	if e.Peer.Kind == policy.KindPod || e.Peer.Kind == policy.KindExternalEntity {
		// A Pod with the network of its Node is in no group, so its labels would not let it in.
		if values, labels := w.valuesOf(e.Peer); len(labels) > 0 && !w.entities[e.Peer].HostNetwork {
			return peer{namespace: e.Peer.Namespace, values: values, kind: e.Peer.Kind}
		}
	}
	for _, outside := range w.options.Outside {
		if outside.Contains(e.Address) {
			return peer{block: outside.Masked()}
		}
	}
	return peer{block: netip.PrefixFrom(e.Address, e.Address.BitLen())}
}

// write writes the policy of a group.
func (w *writer) write(g *group) *v1beta1.NetworkPolicy {
	p := &v1beta1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion().String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.options.Namespace, Name: nameOf(g), UID: types.UID("recommended " + nameOf(g)), Annotations: map[string]string{
			cloudv1alpha1.AnnotationStage: cloudv1alpha1.StagePlan, AnnotationEvidence: w.evidence(g),
		}},
	}
	p.Spec.Tier, p.Spec.Priority = w.options.Tier, w.options.Priority
	applied := v1beta1.AppliedTo{ExternalEntitySelector: &metav1.LabelSelector{MatchLabels: g.values}}
	if g.kind == policy.KindPod {
		applied = v1beta1.AppliedTo{PodSelector: &metav1.LabelSelector{MatchLabels: g.values}}
	}
	p.Spec.AppliedTo = []v1beta1.AppliedTo{applied}
	p.Spec.Ingress, p.Spec.Egress = w.rules(g, cloud.Ingress), w.rules(g, cloud.Egress)
	if g.kind == policy.KindPod { // an Allow rule of Antrea isolates no Pod
		p.Spec.Ingress, p.Spec.Egress = closed(p.Spec.Ingress, "in-rest"), closed(p.Spec.Egress, "out-rest")
	}
	return p
}

// closed are rules with one that drops what they do not let through. Where there are none, nothing
// is dropped.
func closed(rules []v1beta1.Rule, name string) []v1beta1.Rule {
	if len(rules) == 0 {
		return rules
	}
	return append(rules, v1beta1.Rule{Name: name, Action: v1beta1.RuleActionDrop})
}

// AnnotationEvidence says on what a policy that was recommended rests.
const AnnotationEvidence = "nephele.io/evidence"

func (w *writer) evidence(g *group) string {
	text := fmt.Sprintf("%d connections of %d machines", g.connections, len(g.machines))
	if !w.options.Since.IsZero() {
		text += fmt.Sprintf(", seen from %s to %s", w.options.Since.UTC().Format(time.RFC3339), w.options.Until.UTC().Format(time.RFC3339))
	}
	if g.guesses > 0 {
		text += fmt.Sprintf("; of %d of them nothing showed which end began", g.guesses)
	}
	return text + ". What happens more rarely was not seen."
}

// nameOf is the name of the policy of a group: from the values of its labels.
func nameOf(g *group) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(g.values)) {
		words = append(words, g.values[key])
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, strings.Join(words, "-"))
	clean = strings.Trim(clean, "-.")
	if len(clean) > 200 {
		clean = strings.Trim(clean[:200], "-.")
	}
	return strings.TrimRight("seen-"+clean, "-.")
}

// rules writes the rules of a direction: services with the same peers share one.
func (w *writer) rules(g *group, d cloud.Direction) []v1beta1.Rule {
	byPeers := map[string][]traffic{}
	peers := map[string][]peer{}
	for at, seen := range g.seen {
		if at.direction != d {
			continue
		}
		if !stated(at.protocol) {
			w.note("%s: protocol %d cannot be said by a policy, and is not allowed", nameOf(g), at.protocol)
			continue
		}
		list := w.widened(g, at, slices.SortedFunc(maps.Keys(seen), comparePeers))
		// A rule is about ports or about ICMP.
		key := fmt.Sprint(at.protocol == cloud.ICMP || at.protocol == cloud.ICMPv6, list)
		byPeers[key], peers[key] = append(byPeers[key], at), list
	}
	var out []v1beta1.Rule
	for _, key := range slices.Sorted(maps.Keys(byPeers)) {
		services := byPeers[key]
		slices.SortFunc(services, func(a, b traffic) int {
			return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.port, b.port))
		})
		rule := v1beta1.Rule{Action: v1beta1.RuleActionAllow}
		for _, s := range services {
			addService(&rule, s)
		}
		for _, p := range peers[key] {
			if d == cloud.Ingress {
				rule.From = append(rule.From, w.peer(p))
			} else {
				rule.To = append(rule.To, w.peer(p))
			}
		}
		out = append(out, rule)
	}
	slices.SortStableFunc(out, func(a, b v1beta1.Rule) int { return cmp.Compare(sortKey(&a), sortKey(&b)) })
	for i := range out {
		out[i].Name = fmt.Sprintf("%s-%d", map[cloud.Direction]string{cloud.Ingress: "in", cloud.Egress: "out"}[d], i+1)
	}
	return out
}

func sortKey(r *v1beta1.Rule) string {
	for _, p := range r.Ports {
		return fmt.Sprintf("%s %05d", *p.Protocol, p.Port.IntVal)
	}
	return "z"
}

func stated(protocol uint8) bool {
	return protocol == cloud.TCP || protocol == cloud.UDP || protocol == cloud.SCTP || protocol == cloud.ICMP || protocol == cloud.ICMPv6
}

// addService adds a service to a rule.
func addService(r *v1beta1.Rule, s traffic) {
	switch s.protocol {
	case cloud.ICMP, cloud.ICMPv6:
		if len(r.Protocols) == 0 { // flow logs do not tell the type
			r.Protocols = []v1beta1.NetworkPolicyProtocol{{ICMP: &v1beta1.ICMPProtocol{}}}
		}
		return
	}
	protocol := map[uint8]v1beta1.Protocol{cloud.TCP: v1beta1.ProtocolTCP, cloud.UDP: v1beta1.ProtocolUDP, cloud.SCTP: v1beta1.ProtocolSCTP}[s.protocol]
	port := intstr.FromInt32(int32(s.port))
	r.Ports = append(r.Ports, v1beta1.NetworkPolicyPort{Protocol: &protocol, Port: &port})
}

func comparePeers(a, b peer) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.values, b.values), a.block.Addr().Compare(b.block.Addr()),
		cmp.Compare(a.block.Bits(), b.block.Bits()))
}

// widened takes everybody in the Internet for more than MostAddresses of its addresses.
func (w *writer) widened(g *group, at traffic, list []peer) []peer {
	count := map[bool]int{}
	for _, p := range list {
		if p.kind == 0 && trace.Global(p.block.Addr()) {
			count[p.block.Addr().Is4()]++
		}
	}
	for v4, everybody := range map[bool]netip.Prefix{true: netip.MustParsePrefix("0.0.0.0/0"), false: netip.MustParsePrefix("::/0")} {
		if count[v4] <= MostAddresses {
			continue
		}
		w.note("%s: %s is open to everybody in the Internet: %d addresses were seen, and --outside names ranges", nameOf(g), at, count[v4])
		list = slices.DeleteFunc(list, func(p peer) bool { return p.kind == 0 && p.block.Addr().Is4() == v4 })
		list = append(list, peer{block: everybody})
	}
	slices.SortFunc(list, comparePeers)
	return list
}

func (t traffic) String() string {
	return fmt.Sprintf("protocol %d port %d", t.protocol, t.port)
}

// peer writes the peer of a rule.
func (w *writer) peer(p peer) v1beta1.NetworkPolicyPeer {
	if p.kind == 0 {
		return v1beta1.NetworkPolicyPeer{IPBlock: &v1beta1.IPBlock{CIDR: p.block.String()}}
	}
	selector := &metav1.LabelSelector{MatchLabels: w.labels[p.values]}
	out := v1beta1.NetworkPolicyPeer{ExternalEntitySelector: selector}
	if p.kind == policy.KindPod {
		out = v1beta1.NetworkPolicyPeer{PodSelector: selector}
	}
	if p.namespace != w.options.Namespace {
		out.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": p.namespace}}
	}
	return out
}

func (w *writer) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// maxUnseen bounds how many machines are named of which nothing was seen.
const maxUnseen = 10

// unseen says which machines no policy isolates: nothing was seen of them, or they have no label.
func (w *writer) unseen() {
	for _, m := range slices.SortedFunc(maps.Keys(w.unnamed), compareRefs) {
		w.note("%s has no label that a policy could select it by: no policy is written for it", m.Name)
	}
	seen := map[policy.EntityRef]bool{}
	for _, g := range w.groups {
		for m := range g.machines {
			seen[m] = true
		}
	}
	var names []string
	more := 0
	for _, m := range w.machines {
		if group, _ := w.valuesOf(m); seen[m] || w.unnamed[m] || w.groups[group] != nil {
			continue
		}
		if len(names) == maxUnseen {
			more++
			continue
		}
		names = append(names, cmp.Or(w.entities[m].Labels[cloudv1alpha1.LabelCloudVMName], m.Name))
	}
	if len(names) > 0 {
		text := strings.Join(names, ", ")
		if more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		w.note("nothing was seen of %s: no policy is written for them", text)
	}
}
