// Package adopt translates the security groups of machines into policies that mean the same, as a
// start for users who take over an estate.
//
// It owns that translation and reports where it is not exact: what a policy cannot say is left out,
// never widened. A policy names machines by selectors where that means the same as the group, and
// by addresses where it would mean more.
//
// All functions are pure: no I/O, no clock, no goroutines. They may be called concurrently and do
// not change what they are given.
package adopt

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Machine is a VM that an entity represents.
type Machine struct {
	// Entity is the ExternalEntity of the VM; policies are made in its namespace.
	Entity types.NamespacedName
	ID     string
}

// Result is what became of some machines.
type Result struct {
	// Policies are sorted by namespace and name. Each is for the machines with the same groups.
	Policies []*v1beta1.NetworkPolicy
	// LeftOut says what the policies do not allow though the groups do, and for which machines
	// there is none. Sorted.
	LeftOut []Remark
}

// Remark is something that cannot be said by a policy.
type Remark struct {
	// Policy is the one that lacks it; empty if there is none for the VM.
	Policy string
	VM     string
	Group  string
	Rule   string
	Why    Reason
}

// Reason is why something is left out.
type Reason string

// The reasons.
const (
	// Protocol: policies know TCP, UDP, SCTP and ICMP, or all protocols together, and no port 0
	// alone.
	Protocol Reason = "Protocol"
	// Unseen: the members of a group or prefix list are not in the snapshot.
	Unseen Reason = "Unseen"
	// Differs: the interfaces of the VM hold different groups, and a policy is for the whole VM.
	Differs Reason = "Differs"
	// Ours: the VM holds a group of Nephele's, so that its own are not seen.
	Ours Reason = "Ours"
)

// Groups writes the groups of machines of one region as policies. all are the machines that
// policies may select as peers; chosen says for which of them policies are wanted. The priority is
// that of the policies in the tier application.
func Groups(s *cloud.Snapshot, all []Machine, chosen func(Machine) bool, priority float64) Result {
	w := newWriter(s, all, priority)
	var out Result
	for _, m := range all {
		if !chosen(m) {
			continue
		}
		if why := w.adoptable(m.ID); why != "" {
			out.LeftOut = append(out.LeftOut, Remark{VM: m.ID, Why: why})
			continue
		}
		if nics := w.interfaces[m.ID]; len(nics) > 0 {
			w.add(m, nics[0])
		}
	}
	for _, key := range w.order {
		p, left := w.write(w.classes[key])
		out.Policies, out.LeftOut = append(out.Policies, p), append(out.LeftOut, left...)
	}
	slices.SortFunc(out.Policies, func(a, b *v1beta1.NetworkPolicy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(out.LeftOut, Remark.compare)
	out.LeftOut = slices.Compact(out.LeftOut)
	return out
}

func (r Remark) compare(o Remark) int {
	return cmp.Or(cmp.Compare(r.Policy, o.Policy), cmp.Compare(r.VM, o.VM), cmp.Compare(r.Group, o.Group), cmp.Compare(r.Rule, o.Rule), cmp.Compare(r.Why, o.Why))
}

// class is machines of one namespace with the same groups.
type class struct {
	namespace, network string
	groups             []string
	machines           []Machine
}

// writer makes the policies of a region.
type writer struct {
	snapshot   *cloud.Snapshot
	priority   float64
	groups     map[string]*cloud.Group
	lists      map[string]*cloud.PrefixList
	interfaces map[string][]*cloud.Interface // by VM
	machines   map[string]Machine
	peered     map[[2]string]bool
	classes    map[string]*class
	order      []string
}

func newWriter(s *cloud.Snapshot, all []Machine, priority float64) *writer {
	w := &writer{
		snapshot: s, priority: priority, groups: map[string]*cloud.Group{}, lists: map[string]*cloud.PrefixList{}, interfaces: map[string][]*cloud.Interface{},
		machines: map[string]Machine{}, peered: map[[2]string]bool{}, classes: map[string]*class{},
	}
	for i := range s.Groups {
		w.groups[s.Groups[i].ID] = &s.Groups[i]
	}
	for i := range s.PrefixLists {
		w.lists[s.PrefixLists[i].ID] = &s.PrefixLists[i]
	}
	for i := range s.Interfaces {
		if n := &s.Interfaces[i]; n.VMID != "" {
			w.interfaces[n.VMID] = append(w.interfaces[n.VMID], n)
		}
	}
	for _, m := range all {
		w.machines[m.ID] = m
	}
	for _, p := range s.Peerings {
		if p.CarriesGroups() {
			w.peered[[2]string{p.A.NetworkID, p.B.NetworkID}], w.peered[[2]string{p.B.NetworkID, p.A.NetworkID}] = true, true
		}
	}
	return w
}

// adoptable says why there can be no policy for a VM.
func (w *writer) adoptable(vm string) Reason {
	nics := w.interfaces[vm]
	for _, n := range nics {
		if !slices.Equal(n.GroupIDs, nics[0].GroupIDs) || n.NetworkID != nics[0].NetworkID {
			return Differs
		}
		if slices.ContainsFunc(n.GroupIDs, func(id string) bool { return w.groups[id] != nil && w.groups[id].Tags[cloud.TagKind] != "" }) {
			return Ours
		}
	}
	return ""
}

func (w *writer) add(m Machine, n *cloud.Interface) {
	key := strings.Join([]string{m.Entity.Namespace, n.NetworkID, strings.Join(n.GroupIDs, " ")}, "|")
	c := w.classes[key]
	if c == nil {
		c = &class{namespace: m.Entity.Namespace, network: n.NetworkID, groups: n.GroupIDs}
		w.classes[key] = c
		w.order = append(w.order, key)
	}
	c.machines = append(c.machines, m)
}

// name is that of the policy for the machines with these groups: from their ids, which are unique.
func (c *class) name() string { return "from-" + strings.Join(c.groups, "-") }

// maxName is how long the name of an object may be.
const maxName = 253

func (w *writer) write(c *class) (*v1beta1.NetworkPolicy, []Remark) {
	name := c.name()
	if len(name) > maxName {
		name = name[:maxName]
	}
	p := &v1beta1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion().String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
	}
	p.Spec.Priority = w.priority
	p.Spec.AppliedTo = []v1beta1.AppliedTo{{ExternalEntitySelector: selecting(c.machines)}}
	var left []Remark
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		rules, without := w.rules(c, d, name)
		left = append(left, without...)
		if len(rules) == 0 {
			// Without any Allow rule the direction would be left to the groups.
			rules = []v1beta1.Rule{{Name: prefix(d) + "nothing", Action: v1beta1.RuleActionDrop}}
		}
		if d == cloud.Ingress {
			p.Spec.Ingress = rules
		} else {
			p.Spec.Egress = rules
		}
	}
	return p, left
}

// selecting selects machines by their ids in the cloud.
func selecting(machines []Machine) *metav1.LabelSelector {
	ids := make([]string, len(machines))
	for i, m := range machines {
		ids[i] = m.ID
	}
	slices.Sort(ids)
	if len(ids) == 1 {
		return &metav1.LabelSelector{MatchLabels: map[string]string{cloudv1alpha1.LabelCloudVMUID: ids[0]}}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: cloudv1alpha1.LabelCloudVMUID, Operator: metav1.LabelSelectorOpIn, Values: ids,
	}}}
}

func prefix(d cloud.Direction) string {
	if d == cloud.Egress {
		return "out-"
	}
	return "in-"
}

// rules writes the rules of a class in a direction: one for each kind of traffic, with all its
// peers.
func (w *writer) rules(c *class, d cloud.Direction, policy string) ([]v1beta1.Rule, []Remark) {
	var matches []cloud.Match
	peers := map[cloud.Match][]v1beta1.NetworkPolicyPeer{}
	var left []Remark
	for _, id := range c.groups {
		g := w.groups[id]
		for i := 0; g != nil && i < len(g.Rules); i++ {
			r := g.Rules[i]
			if r.Direction != d {
				continue
			}
			list, why := w.peers(c, &r)
			if traffic(&v1beta1.Rule{}, r.Match) == nil {
				why = Protocol
			}
			if why != "" {
				left = append(left, Remark{Policy: c.namespace + "/" + policy, Group: id, Rule: r.String(), Why: why})
				continue
			}
			if len(list) == 0 {
				continue // nobody holds the group
			}
			if peers[r.Match] == nil {
				matches = append(matches, r.Match)
			}
			peers[r.Match] = append(peers[r.Match], list...)
		}
	}
	slices.SortFunc(matches, func(a, b cloud.Match) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	var out []v1beta1.Rule
	for _, m := range matches {
		r := traffic(&v1beta1.Rule{Action: v1beta1.RuleActionAllow, Name: prefix(d) + nameOf(m)}, m)
		list := distinct(peers[m])
		if d == cloud.Ingress {
			r.From = list
		} else {
			r.To = list
		}
		out = append(out, *r)
	}
	return out, left
}

func nameOf(m cloud.Match) string {
	text := strings.ReplaceAll(m.String(), " ", "-")
	return strings.ToLower(text)
}

// distinct leaves out what is given twice.
func distinct(list []v1beta1.NetworkPolicyPeer) []v1beta1.NetworkPolicyPeer {
	var out []v1beta1.NetworkPolicyPeer
	seen := map[string]bool{}
	for _, p := range list {
		key := fmt.Sprintf("%v %v %v", p.NamespaceSelector, p.ExternalEntitySelector, p.IPBlock)
		if !seen[key] {
			seen[key] = true
			out = append(out, p)
		}
	}
	return out
}

// traffic completes a rule; nil if a policy cannot say it.
func traffic(r *v1beta1.Rule, m cloud.Match) *v1beta1.Rule {
	port := func(p v1beta1.Protocol) {
		out := v1beta1.NetworkPolicyPort{Protocol: &p}
		if m.Protocol != cloud.SCTP && (m.From > 0 || m.To < 65535) {
			from := intstr.FromInt32(int32(max(m.From, 1))) // policies know no port 0, which nobody listens on
			out.Port = &from
			if m.To != m.From {
				to := int32(m.To)
				out.EndPort = &to
			}
		}
		r.Ports = []v1beta1.NetworkPolicyPort{out}
	}
	switch m.Protocol {
	case cloud.AnyProtocol:
	case cloud.TCP, cloud.UDP:
		if m.To == 0 {
			return nil
		}
		port(map[int]v1beta1.Protocol{cloud.TCP: v1beta1.ProtocolTCP, cloud.UDP: v1beta1.ProtocolUDP}[m.Protocol])
	case cloud.SCTP:
		port(v1beta1.ProtocolSCTP)
	case cloud.ICMP, cloud.ICMPv6:
		icmp := &v1beta1.ICMPProtocol{}
		for _, x := range []struct {
			value int
			into  **int32
		}{{m.From, &icmp.ICMPType}, {m.To, &icmp.ICMPCode}} {
			if x.value >= 0 {
				v := int32(x.value)
				*x.into = &v
			}
		}
		r.Protocols = []v1beta1.NetworkPolicyProtocol{{ICMP: icmp}}
	default:
		return nil
	}
	return r
}

// peers are the other end of a rule.
func (w *writer) peers(c *class, r *cloud.Rule) ([]v1beta1.NetworkPolicyPeer, Reason) {
	switch p := r.Peer; {
	case p.CIDR.IsValid():
		return blocks(r, p.CIDR), ""
	case p.PrefixListID != "":
		l := w.lists[p.PrefixListID]
		if l == nil || !l.Known() {
			return nil, Unseen
		}
		return blocks(r, l.Entries...), ""
	case w.groups[p.GroupID] == nil && p.GroupOwner != "":
		return nil, Unseen
	}
	return w.holders(c, r), ""
}

// of reports whether packets of the rule may have an address: ICMP is of one family.
func of(r *cloud.Rule, a netip.Addr) bool {
	return r.Match.Protocol != cloud.ICMP && r.Match.Protocol != cloud.ICMPv6 || a.Is4() == (r.Match.Protocol == cloud.ICMP)
}

func blocks(r *cloud.Rule, prefixes ...netip.Prefix) []v1beta1.NetworkPolicyPeer {
	var out []v1beta1.NetworkPolicyPeer
	for _, p := range prefixes {
		if of(r, p.Addr()) {
			out = append(out, v1beta1.NetworkPolicyPeer{IPBlock: &v1beta1.IPBlock{CIDR: p.Masked().String()}})
		}
	}
	return out
}

// holders are the peers for the members of the group that a rule references: machines by selector,
// one selector for each namespace. A member that is no such machine, or not with all its interfaces
// and addresses, is a peer by its private addresses.
func (w *writer) holders(c *class, r *cloud.Rule) []v1beta1.NetworkPolicyPeer {
	holds := func(n *cloud.Interface) bool { return slices.Contains(n.GroupIDs, r.Peer.GroupID) }
	machines := map[string][]Machine{}
	var namespaces []string
	var rest []netip.Prefix
	seen := map[string]bool{}
	for i := range w.snapshot.Interfaces {
		n := &w.snapshot.Interfaces[i]
		if !holds(n) || n.NetworkID != c.network && !w.peered[[2]string{n.NetworkID, c.network}] {
			continue
		}
		m, known := w.machines[n.VMID]
		all := known && !slices.ContainsFunc(w.interfaces[n.VMID], func(o *cloud.Interface) bool {
			return !holds(o) || slices.ContainsFunc(o.PrivateIPs, func(a netip.Addr) bool { return !of(r, a) })
		})
		if !all {
			for _, a := range n.PrivateIPs {
				rest = append(rest, netip.PrefixFrom(a, a.BitLen()))
			}
			rest = append(rest, n.Prefixes...)
			continue
		}
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		if machines[m.Entity.Namespace] == nil {
			namespaces = append(namespaces, m.Entity.Namespace)
		}
		machines[m.Entity.Namespace] = append(machines[m.Entity.Namespace], m)
	}
	slices.Sort(namespaces)
	var out []v1beta1.NetworkPolicyPeer
	for _, namespace := range namespaces {
		p := v1beta1.NetworkPolicyPeer{ExternalEntitySelector: selecting(machines[namespace])}
		if namespace != c.namespace {
			p.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{namespaceName: namespace}}
		}
		out = append(out, p)
	}
	return append(out, blocks(r, rest...)...)
}

// namespaceName is the label with the name of a Namespace.
const namespaceName = "kubernetes.io/metadata.name"

// String says it in one line.
func (r Remark) String() string {
	switch r.Why {
	case Differs:
		return fmt.Sprintf("VM %s: its interfaces hold different groups, and a policy is for the whole VM: there is none for it", r.VM)
	case Ours:
		return fmt.Sprintf("VM %s: it holds a group of Nephele's, so its own groups are not seen: there is no policy for it", r.VM)
	case Unseen:
		return fmt.Sprintf("NetworkPolicy %s: %q of group %s is left out: its peer cannot be seen in the snapshot", r.Policy, r.Rule, r.Group)
	}
	return fmt.Sprintf("NetworkPolicy %s: %q of group %s is left out: policies cannot name this traffic", r.Policy, r.Rule, r.Group)
}
