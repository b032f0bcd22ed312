package expect

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/reach"
)

// Result is what became of one test.
type Result struct {
	Name  string
	Flows []FlowResult
}

// FlowResult is what became of one expectation.
type FlowResult struct {
	Flow
	// Index is its place in the test.
	Index int
	// Wrong are the flows that have another outcome, or none if all are as expected.
	Wrong []reach.Flows
	// Told are the same in the words of a controller that was asked, in place of Wrong.
	Told []v1alpha1.ReachRow
	// Nothing tells that no flow is meant: both ends are one, or they have no addresses of one
	// family.
	Nothing bool
	// Err says why the question makes no sense; it is about from or to.
	Err error
}

// Passed reports whether the expectation is met.
func (r *FlowResult) Passed() bool {
	return len(r.Wrong)+len(r.Told) == 0 && !r.Nothing && r.Err == nil
}

// Supposes reports whether the test supposes objects, so that the policies have to be computed for
// it alone.
func (t *PolicyTest) Supposes() bool { return len(t.Spec.Namespaces)+len(t.Spec.Endpoints) > 0 }

// Objects adds what the test supposes to objects. These are not changed.
func (t *PolicyTest) Objects(in input.Objects) input.Objects {
	in.Namespaces, in.Pods, in.Entities = slices.Clone(in.Namespaces), slices.Clone(in.Pods), slices.Clone(in.Entities)
	namespace := func(name string, labels map[string]string) {
		i := slices.IndexFunc(in.Namespaces, func(n *corev1.Namespace) bool { return n.Name == name })
		switch {
		case i < 0:
			in.Namespaces = append(in.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
		case labels != nil:
			n := in.Namespaces[i].DeepCopy()
			n.Labels = labels
			in.Namespaces[i] = n
		}
	}
	for _, n := range t.Spec.Namespaces {
		namespace(n.Name, n.Labels)
	}
	for i := range t.Spec.Endpoints {
		e := &t.Spec.Endpoints[i]
		namespace(e.Namespace, nil)
		meta := metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name, Labels: maps.Clone(e.Labels), UID: types.UID("supposed/" + e.Kind + "/" + e.Namespace + "/" + e.Name)}
		if e.Kind == "Pod" {
			in.Pods = append(slices.DeleteFunc(in.Pods, func(p *corev1.Pod) bool { return p.Namespace == e.Namespace && p.Name == e.Name }), e.pod(meta))
		} else {
			in.Entities = append(slices.DeleteFunc(in.Entities, func(x *v1alpha2.ExternalEntity) bool { return x.Namespace == e.Namespace && x.Name == e.Name }), e.machine(meta))
		}
	}
	return in
}

// supposedNode is where supposed Pods run.
const supposedNode = "supposed"

func (e *Endpoint) pod(meta metav1.ObjectMeta) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: supposedNode, Containers: []corev1.Container{{Name: "c"}}}}
	for _, a := range e.Addresses {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
	}
	p.Status.PodIP = e.Addresses[0]
	for _, port := range e.Ports {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{
			Name: port.Name, ContainerPort: port.Port, Protocol: corev1.Protocol(port.Protocol),
		})
	}
	return p
}

func (e *Endpoint) machine(meta metav1.ObjectMeta) *v1alpha2.ExternalEntity {
	x := &v1alpha2.ExternalEntity{ObjectMeta: meta, Spec: v1alpha2.ExternalEntitySpec{ExternalNode: cloud.EnforcerKey(e.Namespace, "supposed")}}
	for _, a := range e.Addresses {
		x.Spec.Endpoints = append(x.Spec.Endpoints, v1alpha2.Endpoint{IP: a})
	}
	for _, port := range e.Ports {
		x.Spec.Ports = append(x.Spec.Ports, v1alpha2.NamedPort{Name: port.Name, Port: port.Port, Protocol: v1alpha2.Protocol(port.Protocol)})
	}
	return x
}

// Run holds a test against what policies mean. The rules that have a part in any of its flows are
// covered.
func (t *PolicyTest) Run(w *explain.World, covered Coverage) Result {
	out := Result{Name: t.Name}
	for i, f := range t.Spec.Flows {
		r := FlowResult{Flow: f, Index: i}
		flows, err := f.ask(w)
		r.Err = err
		r.Nothing = err == nil && len(flows) == 0
		for k := range flows {
			covered.add(&flows[k])
			if !f.Expect.Met(flows[k].Outcome) {
				r.Wrong = append(r.Wrong, flows[k])
			}
		}
		out.Flows = append(out.Flows, r)
	}
	return out
}

func (f *Flow) ask(w *explain.World) ([]reach.Flows, error) {
	services, wrong := f.services()
	if wrong != nil {
		return nil, *wrong
	}
	q := reach.Question{Services: services, Refused: true}
	var err error
	if q.From, err = party(w, "from", f.From); err != nil {
		return nil, err
	}
	if q.To, err = party(w, "to", f.To); err != nil {
		return nil, err
	}
	return w.Reach(q), nil
}

// party is everybody in the list, but those after !.
func party(w *explain.World, part string, list Texts) (reach.Party, error) {
	var with, without []reach.Party
	for _, text := range list {
		text, not := strings.CutPrefix(text, "!")
		p, err := w.Party(part, text)
		if err != nil {
			return reach.Party{}, err
		}
		if not {
			without = append(without, p)
		} else {
			with = append(with, p)
		}
	}
	out := reach.Party{}
	for _, p := range with {
		out.Addresses = out.Addresses.Union(p.Addresses)
	}
	for _, p := range without {
		out.Addresses = out.Addresses.Minus(p.Addresses)
	}
	in := func(e *reach.Endpoint) func(reach.Party) bool {
		return func(p reach.Party) bool { return p.Chosen != nil && p.Chosen(e) }
	}
	out.Chosen = func(e *reach.Endpoint) bool {
		return slices.ContainsFunc(with, in(e)) && !slices.ContainsFunc(without, in(e))
	}
	return out, nil
}

// Met reports whether an outcome is the expected one.
func (e Expectation) Met(o reach.Outcome) bool {
	switch e {
	case ExpectAllow:
		return o == reach.Allow
	case ExpectDeny:
		return o == reach.Drop || o == reach.Reject
	case ExpectDrop:
		return o == reach.Drop
	case ExpectReject:
		return o == reach.Reject
	case ExpectNative:
		return o == reach.Native
	}
	return false
}

// Written identifies a rule as its author wrote it.
type Written struct {
	Policy    policy.PolicyRef
	Direction policy.Direction
	Index     int
}

// WrittenOf is the rule that a reference is to.
func WrittenOf(r *evaluate.RuleRef) Written { return Written{r.Policy, r.Direction, r.Index} }

// Coverage is the rules that have a part in what was tested: they decide it, or pass it on.
type Coverage map[Written]bool

func (c Coverage) add(f *reach.Flows) {
	refuses := func(d *reach.Decision) bool { return d.Outcome == reach.Drop || d.Outcome == reach.Reject }
	counts := []*reach.Decision{&f.Egress, &f.Ingress}
	switch { // an end that refuses decides, whatever the other end does
	case refuses(&f.Egress):
		counts = counts[:1]
	case refuses(&f.Ingress):
		counts = counts[1:]
	}
	for _, d := range counts {
		if d.Rule != nil {
			c[WrittenOf(d.Rule)] = true
		}
		for _, r := range d.Passed {
			c[WrittenOf(r)] = true
		}
	}
}

// Covered is a rule and whether a test is about it.
type Covered struct {
	reach.RuleUse
	Tested bool
}

// Of returns all rules, in order, with whether they are covered.
func (c Coverage) Of(rules []reach.RuleUse) []Covered {
	out := make([]Covered, len(rules))
	for i, r := range rules {
		out[i] = Covered{RuleUse: r, Tested: c[WrittenOf(&r.RuleRef)]}
	}
	return out
}
