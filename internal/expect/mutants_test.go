package expect_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview"
)

const (
	examplePolicies = "../../docs/examples/policy-tests/policies/shop.yaml"
	exampleTests    = "../../docs/examples/policy-tests/tests/shop.yaml"
)

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// run holds policies against the example's tests. It returns how many expectations there are, and
// the names of the ones that are not met.
func run(t *testing.T, policies string) (all int, failed []string) {
	t.Helper()
	in, err := preview.LoadInputs([]string{"-"}, strings.NewReader(policies+"\n---\n"+read(t, exampleTests)))
	if err != nil {
		t.Fatal(err)
	}
	if c := preview.Compute(in); len(in.Refused) > 0 {
		t.Fatalf("refused %v of %v", in.Refused, c.In.Documents)
	}
	for _, d := range in.Documents {
		test, is := d.Object.(*expect.PolicyTest)
		if !is {
			continue
		}
		objects := test.Objects(in.Objects)
		result := test.Run(explain.Compute(&objects).World(true), expect.Coverage{})
		for i := range result.Flows {
			if result.Flows[i].Err != nil {
				t.Errorf("%s makes no sense: %v", result.Flows[i].Name, result.Flows[i].Err)
			}
			if all++; !result.Flows[i].Passed() {
				failed = append(failed, result.Flows[i].Name)
			}
		}
	}
	return all, failed
}

// mutant is a set of policies of which one is broken.
type mutant struct {
	name string
	docs []map[string]any
}

// documents reads a file of several documents.
func documents(t *testing.T, path string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, doc := range strings.Split(read(t, path), "\n---\n") {
		m := map[string]any{}
		if err := yaml.Unmarshal([]byte(doc), &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// mutants breaks each policy and each rule in every way that may happen by a slip.
func mutants(t *testing.T, path string) []mutant {
	var out []mutant
	whole := documents(t, path)
	add := func(name string, change func([]map[string]any) []map[string]any) {
		out = append(out, mutant{name, change(documents(t, path))})
	}
	for i, d := range whole {
		policy := d["metadata"].(map[string]any)["name"].(string)
		add(policy+" is missing", func(docs []map[string]any) []map[string]any { return slices.Delete(docs, i, i+1) })
		add(policy+" applies to others", func(docs []map[string]any) []map[string]any {
			applied := docs[i]["spec"].(map[string]any)["appliedTo"].([]any)[0].(map[string]any)
			applied["externalEntitySelector"] = map[string]any{"matchLabels": map[string]any{"app": "other"}}
			return docs
		})
		for _, direction := range []string{"ingress", "egress"} {
			rules, _ := d["spec"].(map[string]any)[direction].([]any)
			for k := range rules {
				rule := func(docs []map[string]any) map[string]any {
					return docs[i]["spec"].(map[string]any)[direction].([]any)[k].(map[string]any)
				}
				name := policy + " " + rules[k].(map[string]any)["name"].(string)
				add(name+" is missing", func(docs []map[string]any) []map[string]any {
					spec := docs[i]["spec"].(map[string]any)
					if spec[direction] = slices.Delete(spec[direction].([]any), k, k+1); len(spec[direction].([]any)) == 0 {
						delete(spec, direction)
					}
					return docs
				})
				add(name+" does the opposite", func(docs []map[string]any) []map[string]any {
					if r := rule(docs); r["action"] == "Allow" {
						r["action"] = "Drop"
					} else {
						r["action"] = "Allow"
					}
					return docs
				})
				if _, has := rules[k].(map[string]any)["ports"]; has {
					add(name+" has another port", func(docs []map[string]any) []map[string]any {
						port := rule(docs)["ports"].([]any)[0].(map[string]any)
						port["port"] = port["port"].(float64) + 1
						return docs
					})
					add(name+" has no ports", func(docs []map[string]any) []map[string]any {
						delete(rule(docs), "ports")
						return docs
					})
				}
				for _, peers := range []string{"from", "to"} {
					if _, has := rules[k].(map[string]any)[peers]; has {
						add(name+" is for everybody", func(docs []map[string]any) []map[string]any {
							delete(rule(docs), peers)
							return docs
						})
					}
				}
			}
		}
	}
	return out
}

// text is the policies as a file has them.
func (m mutant) text(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, d := range m.docs {
		raw, err := yaml.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + string(raw))
	}
	return b.String()
}

// TestBrokenPoliciesFail: the example's tests pass on its policies, and fail on each of them that
// is broken in one place.
func TestBrokenPoliciesFail(t *testing.T) {
	if all, failed := run(t, read(t, examplePolicies)); all != 13 || len(failed) > 0 {
		t.Fatalf("of %d expectations on the policies as they are %q are not met", all, failed)
	}
	list := mutants(t, examplePolicies)
	if len(list) < 25 {
		t.Fatalf("only %d mutants", len(list))
	}
	// Two policies limit what goes from web to the database: if one of them does not, the other one
	// still does.
	harmless := []string{"db from-web has no ports", "web to-db has no ports"}
	for _, m := range list {
		if slices.Contains(harmless, m.name) {
			continue
		}
		if _, failed := run(t, m.text(t)); len(failed) == 0 {
			t.Errorf("%s: no expectation fails", m.name)
		}
	}
}

// TestBothPoliciesBroken: what one of two policies still stops is let through if both are broken.
func TestBothPoliciesBroken(t *testing.T) {
	docs := documents(t, examplePolicies)
	delete(docs[0]["spec"].(map[string]any)["ingress"].([]any)[0].(map[string]any), "ports")
	delete(docs[1]["spec"].(map[string]any)["egress"].([]any)[0].(map[string]any), "ports")
	if _, failed := run(t, mutant{"", docs}.text(t)); !slices.Contains(failed, "web gets no other port") {
		t.Errorf("not met are %q", failed)
	}
}
