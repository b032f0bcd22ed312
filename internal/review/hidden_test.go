package review_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/explain/redact"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/policy/policytest"
	"github.com/nephele-io/nephele/internal/review"
	"github.com/nephele-io/nephele/internal/seed"
)

// randomComputation draws objects and computes them.
func randomComputation(seed uint64, objects int) *explain.Computation {
	r := rand.New(rand.NewPCG(seed, 22))
	draw := policytest.Draw(r.IntN)
	e, w := compute.New(compute.Options{}), policytest.NewWorld()
	for range objects {
		o := draw.Object()
		policytest.Put(e, o)
		w.Put(o)
	}
	e.Commit()
	return &explain.Computation{Objects: &input.Objects{}, Listing: e.Listing(), Ends: w.Entities}
}

// namespaces are those that there is somebody in.
func namespaces(c *explain.Computation) []string {
	var out []string
	for ref := range c.Ends {
		if ref.Namespace != "" && !slices.Contains(out, ref.Namespace) {
			out = append(out, ref.Namespace)
		}
	}
	slices.Sort(out)
	return out
}

// leaks finds what an answer tells of hidden Namespaces, and with cluster of policies of the
// cluster: objects of the answer that name them, and texts that hold NAMESPACE/NAME.
func leaks(t *testing.T, answer any, hidden []string, cluster bool) []string {
	t.Helper()
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(at string, node any)
	walk = func(at string, node any) {
		switch n := node.(type) {
		case map[string]any:
			kind, isPolicy := n["type"].(string)
			_, named := n["namespace"]
			if isPolicy && !cluster && !named && n["name"] != "" && kind != "" {
				out = append(out, fmt.Sprintf("%s: policy %v of the cluster", at, n["name"]))
			}
			for key, value := range n {
				walk(at+"."+key, value)
			}
		case []any:
			for i, value := range n {
				walk(fmt.Sprintf("%s[%d]", at, i), value)
			}
		case string:
			for _, ns := range hidden {
				if n == ns && strings.HasSuffix(at, ".namespace") || strings.Contains(" "+n, " "+ns+"/") || strings.Contains(n, "/"+ns+"/") {
					out = append(out, fmt.Sprintf("%s: %s", at, n))
				}
			}
		}
	}
	walk("status", tree)
	return out
}

// TestNothingHiddenIsTold: a caller that sees some Namespaces gets no word of the others from any
// review; what an end of its own decides is the same as for a caller that sees everything, and
// where it sees both ends, so is all the rest.
func TestNothingHiddenIsTold(t *testing.T) {
	seed := seed.Of(t)
	compared, hiddenEnds, told := 0, 0, 0
	for n := range uint64(60) {
		full := randomComputation(seed+n, 60)
		spaces := namespaces(full)
		r := rand.New(rand.NewPCG(seed+n, 23))
		var hidden []string
		for _, ns := range spaces {
			if r.IntN(2) == 0 {
				hidden = append(hidden, ns)
			}
		}
		cluster := r.IntN(2) == 0
		limited := full.For(redact.View{Namespace: func(ns string) bool { return !slices.Contains(hidden, ns) }, Cluster: cluster})
		name := fmt.Sprintf("world %d, hidden %v, cluster %t", seed+n, hidden, cluster)
		check := func(what string, answer any) {
			if found := leaks(t, answer, hidden, cluster); len(found) > 0 {
				t.Fatalf("%s: %s tells %v", name, what, found)
			}
		}
		world := limited.World(false)
		for _, to := range append(visible(spaces, hidden), "any") {
			if to != "any" {
				to += "/*"
			}
			if answer, err := review.Reach(world, v1alpha1.ReachReviewSpec{To: to, Refused: true}); err == nil {
				check("reach to "+to, answer)
				told += len(answer.Flows)
			}
			if answer, err := review.Rules(world, v1alpha1.EffectiveRulesSpec{Of: to}); err == nil {
				check("rules of "+to, answer)
			}
		}
		uses, err := review.Rules(world, v1alpha1.EffectiveRulesSpec{})
		if err != nil {
			t.Fatal(err)
		}
		check("rules", uses)
		ends := sortedEnds(full)
		for range 200 {
			from, to := ends[r.IntN(len(ends))], ends[r.IntN(len(ends))]
			q := v1alpha1.FlowReviewSpec{From: askedBy(full, from, r), To: askedBy(full, to, r), Protocol: "TCP", Port: fmt.Sprint(79 + r.IntN(5))}
			want, errFull := review.Flow(full, q)
			got, err := review.Flow(limited, q)
			if err != nil {
				if errFull == nil && isVisible(from, hidden, cluster) && isVisible(to, hidden, cluster) {
					t.Fatalf("%s: %+v: %v; a caller that sees everything gets an answer", name, q, err)
				}
				if found := leaks(t, strings.ReplaceAll(strings.ReplaceAll(err.Error(), q.From, ""), q.To, ""), hidden, cluster); len(found) > 0 {
					t.Fatalf("%s: %+v: the error tells %v", name, q, found)
				}
				continue
			}
			if errFull != nil {
				t.Fatalf("%s: %+v: an answer where a caller that sees everything gets none: %v", name, q, errFull)
			}
			check(fmt.Sprintf("%+v", q), got)
			compared++
			// Rules look at addresses: the answer does not have what an entity with the same
			// address decides that the caller may not see.
			if sharesAddress(full, from, hidden, cluster) || sharesAddress(full, to, hidden, cluster) {
				continue
			}
			if cluster && isVisible(from, hidden, cluster) && isVisible(to, hidden, cluster) && got.Ingress != nil && want.Ingress != nil {
				if sameBut(hidden, got.Egress, want.Egress) && sameBut(hidden, got.Ingress, want.Ingress) && got.Verdict == want.Verdict {
					continue
				}
				t.Fatalf("%s: %+v:\n%s\nwhoever sees everything is told\n%s", name, q, text(t, got), text(t, want))
			}
			hiddenFrom := from.Namespace == "" && !cluster || slices.Contains(hidden, from.Namespace)
			if hiddenFrom && isVisible(to, hidden, cluster) && got.Ingress != nil && want.Ingress != nil {
				hiddenEnds++
				if got.From.Name != "" || got.From.Kind != "" || got.Egress.DecidedBy != nil {
					t.Fatalf("%s: %+v: an end that is hidden is told: %s", name, q, text(t, got))
				}
				// That it is the Pod's own Node, which is always let in, is not told either.
				if o := got.Ingress.Outcome; o != want.Ingress.Outcome && o != string(evaluate.OutcomeUnknown) && want.Ingress.Default != string(evaluate.ExemptOwnNode) {
					t.Fatalf("%s: %+v: %s, %+v; a caller that sees everything gets %+v", name, q, got.Verdict, got.Ingress, want.Ingress)
				}
			}
		}
	}
	if compared < 1000 || hiddenEnds < 30 || told < 100 {
		t.Errorf("%d answers were compared, %d with a hidden source, and %d rows were told: want more", compared, hiddenEnds, told)
	}
}

func text(t *testing.T, answer any) string {
	t.Helper()
	out, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// sameBut compares decisions, but for others with the same address and for the names of policies in
// hidden Namespaces, as those about Nodes may be, which only a caller that sees everything gets.
func sameBut(hidden []string, a, b *v1alpha1.Decision) bool {
	policy := func(p v1alpha1.Policy) v1alpha1.Policy {
		if slices.Contains(hidden, p.Namespace) {
			return v1alpha1.Policy{Type: p.Type, Hidden: true}
		}
		return p
	}
	rule := func(r *v1alpha1.Rule) {
		r.Through = nil
		if r.Policy = policy(r.Policy); r.Policy.Hidden {
			r.Name, r.DependsOn = "", nil
		}
	}
	strip := func(d *v1alpha1.Decision) *v1alpha1.Decision {
		d = d.DeepCopy()
		if d.DecidedBy != nil {
			rule(d.DecidedBy)
		}
		for _, rules := range [][]v1alpha1.Rule{d.Passed, d.Uncertain} {
			for i := range rules {
				rule(&rules[i])
			}
		}
		for i := range d.IsolatedBy {
			d.IsolatedBy[i] = policy(d.IsolatedBy[i])
		}
		return d
	}
	return reflect.DeepEqual(strip(a), strip(b))
}

func visible(spaces, hidden []string) []string {
	return slices.DeleteFunc(slices.Clone(spaces), func(ns string) bool { return slices.Contains(hidden, ns) })
}

func isVisible(e policy.Entity, hidden []string, cluster bool) bool {
	if e.Namespace == "" {
		return cluster
	}
	if e.HostNetwork && e.Host != "" && !cluster {
		return false
	}
	return !slices.Contains(hidden, e.Namespace)
}

// sharesAddress reports whether a hidden entity has an address of an entity.
func sharesAddress(c *explain.Computation, e policy.Entity, hidden []string, cluster bool) bool {
	for _, o := range c.Ends {
		if o.EntityRef != e.EntityRef && !isVisible(o, hidden, cluster) && slices.ContainsFunc(o.Addresses, func(a netip.Addr) bool { return slices.Contains(e.Addresses, a) }) {
			return true
		}
	}
	return false
}

func sortedEnds(c *explain.Computation) []policy.Entity {
	var out []policy.Entity
	for _, e := range c.Ends {
		if !e.Terminated && len(e.Addresses) > 0 {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b policy.Entity) int { return strings.Compare(fmt.Sprint(a.EntityRef), fmt.Sprint(b.EntityRef)) })
	return out
}

// askedBy is how somebody asks about an entity: by name or by address.
func askedBy(c *explain.Computation, e policy.Entity, r *rand.Rand) string {
	if r.IntN(2) == 0 && !e.HostNetwork { // the address of such a Pod is its Node's
		a := e.Addresses[0]
		holders := 0
		for _, o := range c.Ends {
			if !o.Terminated && slices.Contains(o.Addresses, a) {
				holders++
			}
		}
		if holders == 1 {
			return a.String()
		}
	}
	switch e.Kind {
	case policy.KindNode:
		return "node/" + e.Name
	case policy.KindPod:
		return "pod/" + e.Namespace + "/" + e.Name
	}
	return "ee/" + e.Namespace + "/" + e.Name
}

// hiddenWorld says what of a world may not be seen.
type hiddenWorld struct {
	hidden  []string
	cluster bool
}

// holds reports whether an object may be seen, or is one of the cluster that decides about those
// who may.
func (h hiddenWorld) holds(o policytest.Object) bool {
	switch o := o.(type) {
	case policy.Namespace:
		return !slices.Contains(h.hidden, o.Name)
	case policy.Entity:
		if o.Kind == policy.KindNode {
			return h.cluster
		}
		return !slices.Contains(h.hidden, o.Namespace)
	case policy.Service:
		return !slices.Contains(h.hidden, o.Namespace)
	case policy.Policy:
		return !slices.Contains(h.hidden, o.Namespace) || mayApplyElsewhere(o)
	}
	return true
}

// name tells objects apart.
func name(o policytest.Object) string {
	switch o := o.(type) {
	case policy.Namespace:
		return "namespace " + o.Name
	case policy.Entity:
		return fmt.Sprint("entity ", o.EntityRef)
	case policy.Service:
		return "service " + o.Namespace + "/" + o.Name
	case policy.Group:
		return "group " + o.Namespace + "/" + o.Name
	case policy.Policy:
		return fmt.Sprint("policy ", o.Kind, o.UID, o.Namespace, "/", o.Name)
	case policy.Tier:
		return "tier " + o.Name
	}
	return ""
}

// mayApplyElsewhere reports whether a policy may decide about Nodes, or in other Namespaces.
func mayApplyElsewhere(p policy.Policy) bool {
	beyond := func(a policy.AppliedTo) bool {
		return a.NodeSelector != nil || a.Group != "" || a.NamespaceSelector != nil || a.ServiceAccount != nil
	}
	rules := func(r policy.Rule) bool { return slices.ContainsFunc(r.AppliedTo, beyond) }
	return slices.ContainsFunc(p.AppliedTo, beyond) || slices.ContainsFunc(p.Ingress, rules) || slices.ContainsFunc(p.Egress, rules)
}

// TestTwoWorldsAreOne: two worlds that differ only in what somebody may not see give him the same
// bytes, whatever he asks: by name, by address, about everybody, or what a change would do.
func TestTwoWorldsAreOne(t *testing.T) {
	start := seed.Of(t)
	compared, uncertain, differ := 0, 0, 0
	for n := range uint64(80) {
		r := rand.New(rand.NewPCG(start+n, 38))
		draw := policytest.Draw(r.IntN)
		var objects []policytest.Object
		for range 70 {
			o := draw.Object()
			objects = append(slices.DeleteFunc(objects, func(former policytest.Object) bool { return name(former) == name(o) }), o)
		}
		spaces := map[string]bool{}
		for _, o := range objects {
			if e, is := o.(policy.Entity); is && e.Namespace != "" {
				spaces[e.Namespace] = true
			}
		}
		h := hiddenWorld{cluster: r.IntN(2) == 0}
		for _, ns := range slices.Sorted(maps.Keys(spaces)) {
			if r.IntN(2) == 0 {
				h.hidden = append(h.hidden, ns)
			}
		}
		build := func(replace bool) *explain.Computation {
			e, w := compute.New(compute.Options{}), policytest.NewWorld()
			put := func(o policytest.Object) {
				policytest.Put(e, o)
				w.Put(o)
			}
			for _, o := range objects {
				if h.holds(o) || !replace {
					put(o)
				}
			}
			if replace { // other ones in their place, or none
				for range r.IntN(60) {
					o := draw.Object()
					kept := slices.ContainsFunc(objects, func(of policytest.Object) bool { return name(of) == name(o) && h.holds(of) })
					if !h.holds(o) && !kept {
						put(o)
					}
				}
			}
			e.Commit()
			return &explain.Computation{Objects: &input.Objects{}, Listing: e.Listing(), Ends: w.Entities}
		}
		full, other := build(false), build(true)
		view := redact.View{Namespace: func(ns string) bool { return !slices.Contains(h.hidden, ns) }, Cluster: h.cluster}
		one, two := full.For(view), other.For(view)
		same := func(what string, a, b any, errA, errB error) {
			t.Helper()
			compared++
			if x, y := text(t, a)+fmt.Sprint(errA), text(t, b)+fmt.Sprint(errB); x != y {
				at := 0
				for at < min(len(x), len(y)) && x[at] == y[at] {
					at++
				}
				cut := func(s string) string { return s[max(0, at-300):min(len(s), at+300)] }
				t.Fatalf("world %d, hidden %v, cluster %t: %s:\n%s\n%s", start+n, h.hidden, h.cluster, what, cut(x), cut(y))
			}
		}
		worlds := [2]*explain.World{one.World(false), two.World(false)}
		for _, spec := range []v1alpha1.ReachReviewSpec{
			{To: "any", Refused: true}, {To: "any"}, {Grouped: true}, {GroupBy: "namespace"}, {GroupBy: "machine", Refused: true}, {From: "0.0.0.0/0", To: "any", Port: "80"},
			{To: "10.0.0.0/8", Refused: true}, {To: "nobody/*"},
		} {
			a, errA := review.Reach(worlds[0], spec)
			b, errB := review.Reach(worlds[1], spec)
			same(fmt.Sprintf("%+v", spec), a, b, errA, errB)
		}
		for _, of := range []string{"", "any"} {
			a, errA := review.Rules(worlds[0], v1alpha1.EffectiveRulesSpec{Of: of})
			b, errB := review.Rules(worlds[1], v1alpha1.EffectiveRulesSpec{Of: of})
			same("rules of "+of, a, b, errA, errB)
		}
		ends := append(sortedEnds(full), sortedEnds(other)...)
		for range 25 { // the members of names and selectors, which may have none
			e := ends[r.IntN(len(ends))]
			asked := []string{askedBy(full, e, r), "*/*", e.Namespace + "/*", "*/" + e.Name, "node/" + e.Name, "cloud/" + e.Name, "pod/" + e.Namespace + "/" + e.Name, e.Name, "svc/" + e.Namespace + "/" + e.Name}
			group := "namespace"
			if keys := slices.Sorted(maps.Keys(e.Labels)); len(keys) > 0 {
				group = keys[r.IntN(len(keys))]
				value := e.Labels[group]
				asked = append(asked, "*/"+group+"="+value, e.Namespace+"/"+group+" in ("+value+")", e.Namespace+"/!"+group)
			}
			of := asked[r.IntN(len(asked))]
			for _, spec := range []v1alpha1.ReachReviewSpec{
				{From: of, To: "any", Refused: true, Limit: 3, Page: 2}, {To: of}, {From: of, To: of, Grouped: true}, {To: of, GroupBy: group, Rows: 2, Columns: 2, FirstRow: 1},
			} {
				a, errA := review.Reach(worlds[0], spec)
				b, errB := review.Reach(worlds[1], spec)
				same(fmt.Sprintf("%+v", spec), a, b, errA, errB)
			}
			a, errA := review.Rules(worlds[0], v1alpha1.EffectiveRulesSpec{Of: of})
			b, errB := review.Rules(worlds[1], v1alpha1.EffectiveRulesSpec{Of: of})
			same("rules of "+of, a, b, errA, errB)
			q := v1alpha1.FlowReviewSpec{From: of, To: asked[r.IntN(len(asked))], Protocol: "TCP", Port: "80"}
			x, errX := review.Flow(one, q)
			y, errY := review.Flow(two, q)
			same(fmt.Sprintf("%+v", q), x, y, errX, errY)
		}
		for range 100 {
			from, to := ends[r.IntN(len(ends))], ends[r.IntN(len(ends))]
			q := v1alpha1.FlowReviewSpec{From: askedBy(full, from, r), To: askedBy(full, to, r), Protocol: "TCP", Port: fmt.Sprint(79 + r.IntN(5))}
			if r.IntN(3) == 0 {
				q.From = from.Addresses[0].String()
			}
			a, errA := review.Flow(one, q)
			b, errB := review.Flow(two, q)
			same(fmt.Sprintf("%+v", q), a, b, errA, errB)
			for _, d := range []*v1alpha1.Decision{a.Egress, a.Ingress} {
				if d != nil && slices.ContainsFunc(d.Uncertain, func(r v1alpha1.Rule) bool { return slices.Contains(r.DependsOn, explain.DependsOnUnseen) }) {
					uncertain++
				}
			}
			if x, err := review.Flow(full, q); err == nil && errA == nil && text(t, x) != text(t, a) {
				differ++
			}
		}
	}
	if compared < 5000 || uncertain < 3 || differ < 200 {
		t.Errorf("%d answers were compared, %d of which depend on members that may not be seen, and %d are others for a caller that sees everything", compared, uncertain, differ)
	}
}
