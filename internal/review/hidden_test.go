package review_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/policytest"
	"github.com/nephele-io/nephele/internal/review"
	"github.com/nephele-io/nephele/internal/seed"
)

// randomComputation draws objects and computes them.
func randomComputation(seed uint64, objects int) *explain.Computation {
	r := rand.New(rand.NewPCG(seed, 22))
	draw := policytest.Draw(r.IntN)
	e, w := policy.New(policy.Options{}), policytest.NewWorld()
	for range objects {
		o := draw.Object()
		policytest.Put(e, o)
		w.Put(o)
	}
	e.Commit()
	return &explain.Computation{Objects: &explain.Objects{}, Listing: e.Listing(), Ends: w.Entities}
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

// TestNothingHiddenIsTold: whoever sees some Namespaces gets no word of the others from any review,
// what an end of his decides is the same that one who sees everything is told, and where he sees
// both ends, so is all the rest.
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
		limited := full.For(explain.View{Namespace: func(ns string) bool { return !slices.Contains(hidden, ns) }, Cluster: cluster})
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
					t.Fatalf("%s: %+v: %v; one who sees everything gets an answer", name, q, err)
				}
				if found := leaks(t, strings.ReplaceAll(strings.ReplaceAll(err.Error(), q.From, ""), q.To, ""), hidden, cluster); len(found) > 0 {
					t.Fatalf("%s: %+v: the error tells %v", name, q, found)
				}
				continue
			}
			if errFull != nil {
				t.Fatalf("%s: %+v: an answer where one who sees everything gets none: %v", name, q, errFull)
			}
			check(fmt.Sprintf("%+v", q), got)
			compared++
			if cluster && isVisible(from, hidden, cluster) && isVisible(to, hidden, cluster) && got.Ingress != nil && want.Ingress != nil {
				if sameBut(hidden, got.Egress, want.Egress) && sameBut(hidden, got.Ingress, want.Ingress) && got.Verdict == want.Verdict {
					continue
				}
				t.Fatalf("%s: %+v:\n%s\nwhoever sees everything is told\n%s", name, q, text(t, got), text(t, want))
			}
			if got.From.Hidden != !isVisible(from, hidden, cluster) || got.To.Hidden != !isVisible(to, hidden, cluster) {
				t.Fatalf("%s: %+v: hidden ends: %t, %t", name, q, got.From.Hidden, got.To.Hidden)
			}
			if got.From.Hidden && !got.To.Hidden && got.Ingress != nil && want.Ingress != nil {
				hiddenEnds++
				if got.Ingress.Outcome != want.Ingress.Outcome || got.Verdict != got.Ingress.Outcome || got.Egress.Default != explain.DefaultHidden {
					t.Fatalf("%s: %+v: %s, %+v; one who sees everything is told %+v", name, q, got.Verdict, got.Ingress, want.Ingress)
				}
			}
		}
	}
	if compared < 1000 || hiddenEnds < 100 || told < 100 {
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
// hidden Namespaces, as those about Nodes may be, which are told only to one who sees everything.
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

// TestTheAPIHasWhatExplainSays: the types of explain and of the API are the same JSON, so that
// nothing is lost between them.
func TestTheAPIHasWhatExplainSays(t *testing.T) {
	var inAPI, inExplain []string
	fields(reflect.TypeFor[v1alpha1.FlowReviewStatus](), "status", &inAPI, map[reflect.Type]bool{reflect.TypeFor[v1alpha1.Seen](): true})
	fields(reflect.TypeFor[explain.Explanation](), "status", &inExplain, map[reflect.Type]bool{})
	slices.Sort(inAPI)
	slices.Sort(inExplain)
	if !slices.Equal(inAPI, inExplain) {
		t.Errorf("the API has\n%s\nexplain has\n%s", strings.Join(inAPI, "\n"), strings.Join(inExplain, "\n"))
	}
}

// fields lists the JSON fields of a type, once for types that hold themselves.
func fields(typ reflect.Type, at string, out *[]string, seen map[reflect.Type]bool) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || seen[typ] {
		return
	}
	seen[typ] = true
	defer delete(seen, typ)
	for f := range typ.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || key == "-":
		case f.Anonymous && key == "":
			fields(f.Type, at, out, seen)
		default:
			*out = append(*out, at+"."+key)
			fields(f.Type, at+"."+key, out, seen)
		}
	}
}
