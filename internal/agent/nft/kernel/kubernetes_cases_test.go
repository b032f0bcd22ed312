package kernel_test

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// action is one thing that is done in a step.
type action struct {
	kind string
	do   func(w *caseWorld)
}

// policyCase is a row of the table: what is done, and looked at after each step.
type policyCase struct {
	kind, name string
	steps      [][]action
}

type (
	npPeer = networkingv1.NetworkPolicyPeer
	npPort = networkingv1.NetworkPolicyPort
	np     = networkingv1.NetworkPolicy
)

// caseRule is a rule of either direction. No peers and no ports mean all.
type caseRule struct {
	peers []npPeer
	ports []npPort
}

// draft is a policy before it is one. nil rules of a direction mean that it does not isolate there.
type draft struct {
	namespace, name string
	target          metav1.LabelSelector
	ingress, egress []caseRule
}

func (d draft) policy() *np {
	p := &np{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: d.name}, Spec: networkingv1.NetworkPolicySpec{PodSelector: d.target}}
	if d.ingress != nil {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
		for _, r := range d.ingress {
			p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: r.peers, Ports: r.ports})
		}
	}
	if d.egress != nil {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		for _, r := range d.egress {
			p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: r.peers, Ports: r.ports})
		}
	}
	return p
}

func label(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func oneOf(key string, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}}}
}

func everything() *metav1.LabelSelector { return &metav1.LabelSelector{} }

func block(cidr string, except ...string) npPeer {
	return npPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
}

func numbered(protocol corev1.Protocol, port int32) npPort {
	at := intstr.FromInt32(port)
	return npPort{Protocol: &protocol, Port: &at}
}

func byName(protocol corev1.Protocol, name string) npPort {
	at := intstr.FromString(name)
	return npPort{Protocol: &protocol, Port: &at}
}

func upTo(protocol corev1.Protocol, first, last int32) npPort {
	p := numbered(protocol, first)
	p.EndPort = &last
	return p
}

// base is what most cases vary in one thing: the Pods "a" of a Namespace talk to "b" and "c" of two
// others by one port.
func base() draft {
	r := caseRule{[]npPeer{{NamespaceSelector: oneOf("ns", "y", "z"), PodSelector: oneOf("pod", "b", "c")}}, []npPort{numbered(corev1.ProtocolTCP, 80)}}
	return draft{"x", "base", *label("pod", "a"), []caseRule{r}, []caseRule{r}}
}

// vary returns base with other rules of one direction, made from the one that it has.
func vary(ingress bool, change func(r caseRule) []caseRule) draft {
	d := base()
	if ingress {
		d.ingress = change(d.ingress[0])
	} else {
		d.egress = change(d.egress[0])
	}
	return d
}

func create(drafts ...draft) []action {
	var out []action
	for _, d := range drafts {
		out = append(out, action{"create policy", func(w *caseWorld) { w.put(d.policy()) }})
	}
	return out
}

func update(d draft) action {
	return action{"update policy", func(w *caseWorld) { w.put(d.policy()) }}
}

func remove(d draft) action {
	return action{"delete policy", func(w *caseWorld) { delete(w.policies, d.namespace+"/"+d.name) }}
}

func labelPod(name string, labels map[string]string) action {
	return action{"label Pod", func(w *caseWorld) {
		p := w.pods[name].DeepCopy()
		p.Labels = labels
		w.pods[name] = p
	}}
}

func labelNamespace(name string, labels map[string]string) action {
	return action{"label Namespace", func(w *caseWorld) { w.namespace(name, labels) }}
}

func createPod(namespace, name, at string) action {
	return action{"create Pod", func(w *caseWorld) { w.pod(namespace, name, at, map[string]string{"pod": name}) }}
}

func deletePod(name string) action {
	return action{"delete Pod", func(w *caseWorld) { delete(w.pods, name) }}
}

func single(kind, name string, drafts ...draft) policyCase {
	return policyCase{kind, name, [][]action{create(drafts...)}}
}

func word(ingress bool) string {
	if ingress {
		return "ingress"
	}
	return "egress"
}

// cases is the table.
func cases() []policyCase {
	return slices.Concat(targetCases(), rulesCases(), peersCases(), portsCases(), exampleCases(), actionCases(), conflictCases(), namespaceCases(), upstreamCases(), moreCases())
}

func targetCases() []policyCase {
	var out []policyCase
	for _, n := range []string{"x", "y", "z"} {
		d := base()
		d.namespace = n
		out = append(out, single("target", "in Namespace "+n, d))
	}
	for _, s := range []*metav1.LabelSelector{everything(), label("pod", "a"), oneOf("pod", "a", "b")} {
		d := base()
		d.target = *s
		out = append(out, single("target", "applied to "+metav1.FormatLabelSelector(s), d))
	}
	return out
}

func rulesCases() []policyCase {
	var out []policyCase
	for _, ingress := range []bool{false, true} {
		out = append(out, single("rules", word(ingress)+": nothing is allowed", vary(ingress, func(caseRule) []caseRule { return []caseRule{} })),
			single("rules", word(ingress)+": all is allowed", vary(ingress, func(caseRule) []caseRule { return []caseRule{{}} })))
	}
	return out
}

// onePeer has all ways to select the other end.
func onePeer() []npPeer {
	var out []npPeer
	for _, namespaces := range []*metav1.LabelSelector{nil, everything(), label("ns", "x")} {
		for _, pods := range []*metav1.LabelSelector{nil, everything(), label("pod", "c")} {
			if namespaces != nil || pods != nil {
				out = append(out, npPeer{NamespaceSelector: namespaces, PodSelector: pods})
			}
		}
	}
	return append(out, block("10.0.0.0/29"), block("10.0.0.0/29", "10.0.0.4/30"))
}

func peersCases() []policyCase {
	var out []policyCase
	for _, ingress := range []bool{true, false} {
		with := func(name string, peers ...npPeer) {
			out = append(out, single("peers", word(ingress)+": "+name, vary(ingress, func(r caseRule) []caseRule { return []caseRule{{peers, r.ports}} })))
		}
		with("anybody")
		for i, p := range onePeer() {
			with(fmt.Sprint("peer ", i), p)
			for j, q := range onePeer()[i+1:] {
				with(fmt.Sprint("peers ", i, " and ", i+1+j), p, q)
			}
		}
	}
	return out
}

func portsCases() []policyCase {
	tcp, udp, sctp := corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP
	eighty, eightyOne := intstr.FromInt32(80), intstr.FromInt32(81)
	lists := [][]npPort{{}}
	for _, protocol := range []*corev1.Protocol{nil, &tcp, &udp, &sctp} {
		for _, port := range []*intstr.IntOrString{nil, &eighty, &eightyOne} {
			lists = append(lists, []npPort{{Protocol: protocol, Port: port}})
		}
	}
	for _, protocol := range []corev1.Protocol{tcp, udp, sctp} {
		for _, port := range []int32{80, 81} {
			lists = append(lists, []npPort{byName(protocol, named(port, protocol))})
		}
		for _, last := range []int32{80, 84} {
			lists = append(lists, []npPort{upTo(protocol, 53, last)})
		}
	}
	lists = append(lists,
		[]npPort{byName(tcp, named(81, udp))}, // a name of the other protocol
		[]npPort{byName(tcp, "serve-nothing")},
		[]npPort{numbered(tcp, 7981)},
		[]npPort{{}, {Port: &eighty}},
		[]npPort{{}, byName(tcp, named(80, tcp))},
		[]npPort{{}, {Protocol: &udp}},
		[]npPort{{Port: &eighty}, {Port: &eightyOne}},
		[]npPort{{Port: &eighty}, byName(tcp, named(81, tcp))},
		[]npPort{{Port: &eighty}, byName(udp, named(81, udp))},
		[]npPort{numbered(udp, 80), byName(udp, named(81, udp))},
	)
	var out []policyCase
	for _, ingress := range []bool{false, true} {
		for i, ports := range lists {
			out = append(out, single("ports", fmt.Sprint(word(ingress), ": ports ", i), vary(ingress, func(r caseRule) []caseRule { return []caseRule{{r.peers, ports}} })))
		}
	}
	return out
}

func exampleCases() []policyCase {
	d := draft{"x", "one-name", *everything(), []caseRule{{nil, []npPort{byName(corev1.ProtocolTCP, named(81, corev1.ProtocolTCP))}}}, nil}
	return []policyCase{{"example", "a named port, while others come and go", [][]action{
		create(d),
		{deletePod("z/b"), {"create Namespace", func(w *caseWorld) { w.namespace("w", map[string]string{"ns": "w"}) }}, createPod("w", "a", "z/b")},
		{deletePod("w/a")},
		{{"delete Namespace", func(w *caseWorld) { delete(w.namespaces, "w") }}},
		{},
	}}}
}

func actionCases() []policyCase {
	selected := func(p npPeer) draft {
		return vary(true, func(r caseRule) []caseRule { return []caseRule{{[]npPeer{p}, r.ports}} })
	}
	byNamespace := selected(npPeer{NamespaceSelector: label("new", "yes")})
	byPod := selected(npPeer{NamespaceSelector: oneOf("ns", "y", "z"), PodSelector: label("new", "yes")})
	return []policyCase{
		{"action", "create and delete a policy", [][]action{create(base()), {remove(base())}}},
		{"action", "create and change a policy", [][]action{create(base()),
			{update(vary(true, func(r caseRule) []caseRule {
				return []caseRule{{r.peers, []npPort{byName(corev1.ProtocolUDP, named(81, corev1.ProtocolUDP))}}}
			}))}}},
		{"action", "create and delete a Namespace", [][]action{create(base()),
			{deletePod("x/b"), deletePod("x/c"), {"create Namespace", func(w *caseWorld) { w.namespace("w", map[string]string{"ns": "y"}) }}, createPod("w", "c", "x/b"), createPod("w", "b", "x/c")},
			{deletePod("w/c"), deletePod("w/b"), {"delete Namespace", func(w *caseWorld) { delete(w.namespaces, "w") }}}}},
		{"action", "a Namespace is labelled and not any more", [][]action{create(byNamespace),
			{labelNamespace("y", map[string]string{"ns": "y", "new": "yes"})}, {labelNamespace("y", map[string]string{"ns": "y"})}}},
		{"action", "create and delete a Pod", [][]action{append(create(base()), deletePod("x/b")), {createPod("y", "c", "x/b")}, {deletePod("y/c")}}},
		{"action", "a Pod is labelled and not any more", [][]action{create(byPod),
			{labelPod("y/b", map[string]string{"pod": "b", "new": "yes"})}, {labelPod("y/b", map[string]string{"pod": "b"})}}},
	}
}

// nobody, anyPod and anyAddress allow as little or as much as their names say.
func nobody() []caseRule { return []caseRule{} }

func anyPod() []caseRule {
	return []caseRule{{peers: []npPeer{{NamespaceSelector: everything()}}}}
}

func anyAddress() []caseRule { return []caseRule{{peers: []npPeer{block("0.0.0.0/0")}}} }

func noAddress() []caseRule { return []caseRule{{peers: []npPeer{block("0.0.0.0/31")}}} }

func noPod() []caseRule {
	return []caseRule{{peers: []npPeer{{NamespaceSelector: label("never", "there")}}}}
}

func conflictCases() []policyCase {
	from := func(name string, rules []caseRule) draft {
		return draft{"x", name, *label("pod", "b"), nil, rules}
	}
	to := func(name string, rules []caseRule) draft { return draft{"y", name, *label("pod", "a"), rules, nil} }
	out := []policyCase{
		single("conflict", "none may be sent, all be received", from("none", nobody()), to("all", []caseRule{{}})),
		single("conflict", "all may be sent, none be received", from("all", []caseRule{{}}), to("none", nobody())),
	}
	for word, end := range map[string]func(string, []caseRule) draft{"sent": from, "received": to} {
		for _, c := range []struct {
			name          string
			first, second []caseRule
		}{
			{"none and all", nobody(), []caseRule{{}}},
			{"none, and all by Pods", nobody(), anyPod()},
			{"none, and all by addresses", nobody(), anyAddress()},
			{"none by addresses, all by Pods", noAddress(), anyPod()},
			{"none by Pods, all by addresses", noPod(), anyAddress()},
			{"none by addresses", noAddress(), nil},
			{"none by Pods", noPod(), nil},
		} {
			drafts := []draft{end("first", c.first)}
			if c.second != nil {
				drafts = append(drafts, end("second", c.second))
			}
			out = append(out, single("conflict", word+": "+c.name, drafts...))
		}
	}
	slices.SortStableFunc(out, func(a, b policyCase) int { return strings.Compare(a.name, b.name) })
	return out
}

func namespaceCases() []policyCase {
	var out []policyCase
	for _, ingress := range []bool{true, false} {
		out = append(out, single("namespace", word(ingress)+": by the name of the Namespace", vary(ingress, func(r caseRule) []caseRule {
			return []caseRule{{[]npPeer{{NamespaceSelector: label("kubernetes.io/metadata.name", "z")}}, r.ports}}
		})))
	}
	return out
}

// upstreamCases are the cases of Kubernetes' own end-to-end tests that the suite has.
func upstreamCases() []policyCase {
	tcp := corev1.ProtocolTCP
	in := func(namespace, name string, target *metav1.LabelSelector, rules ...caseRule) draft {
		return draft{namespace, name, *target, append([]caseRule{}, rules...), nil}
	}
	out := func(namespace, name string, target *metav1.LabelSelector, rules ...caseRule) draft {
		return draft{namespace, name, *target, nil, append([]caseRule{}, rules...)}
	}
	a, all := label("pod", "a"), caseRule{}
	fromB := caseRule{peers: []npPeer{{NamespaceSelector: label("ns", "x"), PodSelector: label("pod", "b")}}}
	namespaceOf := func(ns string) []npPeer { return []npPeer{{NamespaceSelector: label("ns", ns)}} }
	none := in("x", "none", everything())
	both := in("x", "both", a, fromB)
	both.egress = []caseRule{{peers: []npPeer{{NamespaceSelector: label("ns", "y"), PodSelector: label("pod", "a")}}, ports: []npPort{numbered(tcp, 80)}}}
	nothing := none
	nothing.egress = []caseRule{}
	relabelled := map[string]string{"pod": "a", "aside": "yes"}
	return []policyCase{
		single("upstream", "a Namespace receives nothing", none),
		single("upstream", "a Namespace sends and receives nothing but DNS", nothing, out("x", "dns", everything(), caseRule{ports: []npPort{numbered(corev1.ProtocolUDP, 53), numbered(tcp, 53)}})),
		single("upstream", "several selectors of Pods and Namespaces", in("x", "several", a, caseRule{peers: []npPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "ns", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}}},
			PodSelector:       oneOf("pod", "b", "c")}}})),
		{"upstream", "policies that overlap", [][]action{create(in("x", "by-81", a, caseRule{namespaceOf("y"), []npPort{numbered(tcp, 81)}})),
			create(in("x", "by-80", oneOf("pod", "a", "b"), caseRule{namespaceOf("y"), []npPort{numbered(tcp, 80)}}))}},
		single("upstream", "all is allowed", in("x", "all", everything(), all)),
		single("upstream", "a named port", in("x", "named", everything(), caseRule{ports: []npPort{byName(tcp, named(81, tcp))}})),
		{"upstream", "a policy is changed", [][]action{create(in("x", "none", everything(), all)), {update(none)}}},
		{"upstream", "a Namespace is labelled", [][]action{create(in("x", "labelled", a, caseRule{peers: []npPeer{{NamespaceSelector: label("aside", "yes")}}})),
			{labelNamespace("y", map[string]string{"ns": "y", "aside": "yes"})}}},
		{"upstream", "a Pod that may is labelled", [][]action{create(in("x", "labelled", a, caseRule{peers: []npPeer{{PodSelector: label("aside", "yes")}}})),
			{labelPod("x/b", map[string]string{"pod": "b", "aside": "yes"})}}},
		{"upstream", "a Pod that receives nothing is labelled", [][]action{create(in("x", "aside", label("aside", "yes"))), {labelPod("x/a", relabelled)}}},
		single("upstream", "both directions in one policy", both),
		single("upstream", "what a Pod may not send, others may receive", out("x", "to-one", label("pod", "b"), caseRule{peers: []npPeer{{NamespaceSelector: label("ns", "y"), PodSelector: label("pod", "a")}}}),
			in("y", "from-b", a, fromB), in("z", "from-b", label("pod", "c"), fromB)),
		{"upstream", "policies are deleted", [][]action{create(none, out("x", "out", everything())), {remove(none), remove(out("x", "out", everything()))}}},
	}
}

// moreCases are not in the suite: IPv6, excepts of excepts, types left out, and other operators.
func moreCases() []policyCase {
	var out []policyCase
	for _, ingress := range []bool{true, false} {
		for _, peers := range [][]npPeer{
			{block("2001:db8::/125")}, {block("2001:db8::/125", "2001:db8::4/126")}, {block("10.0.0.0/29", "10.0.0.2/31", "10.0.0.5/32"), block("10.0.0.5/32")},
		} {
			out = append(out, single("more", fmt.Sprint(word(ingress), ": ", peers[0].IPBlock.CIDR, " and ", len(peers[0].IPBlock.Except), " exceptions"),
				vary(ingress, func(r caseRule) []caseRule { return []caseRule{{peers, r.ports}} })))
		}
	}
	untyped := base().policy()
	untyped.Spec.PolicyTypes = nil
	onlyIn := base().policy()
	onlyIn.Spec.PolicyTypes, onlyIn.Spec.Egress = nil, nil
	for name, p := range map[string]*np{"types left out": untyped, "types left out, and no egress": onlyIn} {
		out = append(out, policyCase{"more", name, [][]action{{{"create policy", func(w *caseWorld) { w.put(p) }}}}})
	}
	for _, operator := range []metav1.LabelSelectorOperator{metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist} {
		d := base()
		d.target = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "aside", Operator: operator}}}
		out = append(out, policyCase{"more", "applied to Pods by " + string(operator), [][]action{create(d), {labelPod("x/a", map[string]string{"pod": "a", "aside": "yes"})}}})
	}
	slices.SortStableFunc(out, func(a, b policyCase) int { return strings.Compare(a.name, b.name) })
	return out
}

// features are what the policies of a case have.
func (k policyCase) features() []string {
	w := &caseWorld{policies: map[string]*np{}}
	seen := map[string]bool{}
	for _, step := range k.steps {
		for _, a := range step {
			if a.kind == "create policy" || a.kind == "update policy" {
				a.do(w)
			}
		}
	}
	for _, p := range w.policies {
		for _, r := range p.Spec.Ingress {
			describe(seen, "ingress", r.From, r.Ports)
		}
		for _, r := range p.Spec.Egress {
			describe(seen, "egress", r.To, r.Ports)
		}
		if len(p.Spec.Ingress) == 0 && slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) || len(p.Spec.Egress) == 0 && slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			seen["deny all"] = true
		}
	}
	var out []string
	for f := range seen {
		out = append(out, f)
	}
	return out
}

func describe(seen map[string]bool, direction string, peers []npPeer, ports []npPort) {
	seen[direction] = true
	for _, p := range peers {
		switch {
		case p.IPBlock != nil && len(p.IPBlock.Except) > 0:
			seen["ipBlock with except"] = true
		case p.IPBlock != nil:
			seen["ipBlock"] = true
		case p.NamespaceSelector != nil && p.PodSelector != nil:
			seen["both selectors"] = true
		case p.NamespaceSelector != nil:
			seen["namespace selector"] = true
		default:
			seen["pod selector"] = true
		}
	}
	if len(peers) == 0 {
		seen["any peer"] = true
	}
	for _, p := range ports {
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		seen[string(protocol)] = true
		switch {
		case p.Port == nil:
			seen["any port"] = true
		case p.Port.Type == intstr.String:
			seen["named port"] = true
		case p.EndPort != nil:
			seen["range of ports"] = true
		default:
			seen["numbered port"] = true
		}
	}
	if len(ports) == 0 {
		seen["any port"] = true
	}
}
