package compute_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

const conformanceDir = "../../../testdata/conformance/policy"

// TestConformance computes every recorded case. What the recorded cluster's schema removed from the
// input without a word (externalEntitySelector where Antrea does not provide it) is removed here
// too, and the reading of `namespaces` peers with appliedTo.group is the recorded one, so that the
// answers must be equal; TestConformanceDepartures has the cases in which we answer otherwise
// without these two crutches.
func TestConformance(t *testing.T) {
	for _, c := range conformanceCases(t) {
		t.Run(c.name, func(t *testing.T) {
			run := c.compute(t, compute.Options{ReferenceNamespacePeers: true}, true)
			if reason := policytest.Stricter()[c.name]; reason != "" && !run.pruned {
				if len(run.rejected) == len(c.rejected) {
					t.Errorf("nothing more refused than recorded; want: %s", reason)
				}
				return
			}
			if diff := cmp.Diff(c.rejected, run.rejected, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("rejected (-want +got):\n%s", diff)
			}
			for _, kind := range []string{"networkpolicies", "addressgroups", "appliedtogroups"} {
				sortRelativeRules(run.wire[kind])
				sortRelativeRules(c.want[kind])
				if diff := cmp.Diff(c.want[kind], run.wire[kind], cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
			}
		})
	}
}

// TestConformanceDepartures computes every case as users get it and holds that exactly those
// answers differ from the recorded ones for which there is one of these reasons.
func TestConformanceDepartures(t *testing.T) {
	reasons := map[string]int{}
	for _, c := range conformanceCases(t) {
		run := c.compute(t, compute.Options{}, false)
		differs := len(run.rejected) != len(c.rejected)
		for _, kind := range []string{"networkpolicies", "addressgroups", "appliedtogroups"} {
			sortRelativeRules(run.wire[kind])
			sortRelativeRules(c.want[kind])
			differs = differs || !cmp.Equal(c.want[kind], run.wire[kind], cmpopts.EquateEmpty())
		}
		reason := ""
		switch {
		case policytest.Stricter()[c.name] != "":
			reason = "refused: " + policytest.Stricter()[c.name]
		case run.pruned:
			reason = "externalEntitySelector works where Antrea's schema drops it"
		case run.relativeToGroup:
			reason = "a rule with `namespaces` peers and appliedTo.group applies to the group's members only"
		}
		if differs != (reason != "") {
			t.Errorf("%s: differs from the recorded answer: %t; reason for that: %q", c.name, differs, reason)
		}
		if differs {
			reasons[reason]++
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		t.Logf("%d cases: %s", reasons[reason], reason)
	}
}

// TestConformanceSpanIsUnfiltered documents what the recorded spans are: the whole listing, for
// every key. The recorded controller ignores nodeName when it lists; it filters watches only, which
// the watch script shows. The engine's spans are held against the oracle and against the watch
// script instead.
func TestConformanceSpanIsUnfiltered(t *testing.T) {
	for _, c := range conformanceCases(t) {
		for key, span := range c.span {
			if len(span.NetworkPolicies) != len(c.want["networkpolicies"].([]any)) ||
				len(span.AddressGroups) != len(c.want["addressgroups"].([]any)) ||
				len(span.AppliedToGroups) != len(c.want["appliedtogroups"].([]any)) {
				t.Errorf("%s: the span of %s is not the whole listing", c.name, key)
			}
		}
	}
}

type conformanceCase struct {
	name     string
	input    string
	want     map[string]any
	rejected []string
	span     map[string]struct {
		NetworkPolicies []any `json:"networkpolicies"`
		AddressGroups   []any `json:"addressgroups"`
		AppliedToGroups []any `json:"appliedtogroups"`
	}
}

func conformanceCases(t *testing.T) []conformanceCase {
	t.Helper()
	dirs, err := os.ReadDir(conformanceDir)
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) < 94 {
		t.Fatalf("%d cases, want 94", len(dirs))
	}
	var out []conformanceCase
	for _, dir := range dirs {
		c := conformanceCase{name: dir.Name()}
		input, err := os.ReadFile(filepath.Join(conformanceDir, dir.Name(), "input.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		c.input = string(input)
		text, err := os.ReadFile(filepath.Join(conformanceDir, dir.Name(), "expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		var rest struct {
			Rejected []struct{ Kind, Name string }
			Span     json.RawMessage
		}
		for _, into := range []any{&c.want, &rest} {
			if err := json.Unmarshal(text, into); err != nil {
				t.Fatal(err)
			}
		}
		if err := json.Unmarshal(rest.Span, &c.span); err != nil {
			t.Fatal(err)
		}
		for _, r := range rest.Rejected {
			c.rejected = append(c.rejected, r.Kind+"/"+r.Name)
		}
		out = append(out, c)
	}
	return out
}

// conformanceRun is what became of a case.
type conformanceRun struct {
	wire     map[string]any
	rejected []string
	// pruned: something was, or without prune would have been, removed from the input.
	// relativeToGroup: there is a rule with `namespaces` peers whose appliedTo names a group.
	pruned, relativeToGroup bool
}

// compute puts the case through admission into a new engine.
func (c *conformanceCase) compute(t *testing.T, options compute.Options, pruneInput bool) conformanceRun {
	t.Helper()
	e := compute.New(options)
	for _, name := range policytest.Ambient() {
		e.PutNamespace(policy.Namespace{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}})
	}
	tiers := map[string]int32{}
	for _, tier := range policy.SystemTiers() {
		tiers[tier.Name] = tier.Priority
	}
	var run conformanceRun
	err := policytest.ReadManifests(c.input, func(o policytest.Object) error {
		switch o := o.(type) {
		case policy.Tier:
			tiers[o.Name] = o.Priority
		case policy.Policy:
			if o.Kind == policy.KubernetesNetworkPolicy {
				break
			}
			before := o
			pruned := policytest.PruneAsAntrea(&o)
			if !pruneInput {
				o = before
			}
			admission.Default(&o)
			errs := append(admission.Schema(&o), admission.ValidatePolicy(&o, tiers)...)
			if len(errs) > 0 {
				t.Logf("%s refused: %s", o.Name, policy.JoinErrors(errs))
				run.rejected = append(run.rejected, "NetworkPolicy/"+o.Name)
				return nil
			}
			run.pruned = run.pruned || pruned
			run.relativeToGroup = run.relativeToGroup || relativeToGroup(&o)
			policytest.Put(e, o)
			return nil
		}
		policytest.Put(e, o)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range e.Commit().Problems {
		t.Errorf("problem of %s %s: %s", p.Policy.Name, p.Group.Name, policy.JoinErrors(append(p.Errors, p.Warnings...)))
	}
	run.wire = policytest.Wire(e.Listing())
	return run
}

func relativeToGroup(p *policy.Policy) bool {
	group := func(list []policy.AppliedTo) bool {
		return slices.ContainsFunc(list, func(a policy.AppliedTo) bool { return a.Group != "" })
	}
	for _, r := range slices.Concat(p.Ingress, p.Egress) {
		relative := slices.ContainsFunc(r.Peers, func(p policy.Peer) bool { return p.Namespaces != nil })
		if relative && (group(p.AppliedTo) || group(r.AppliedTo)) {
			return true
		}
	}
	return false
}

// sortRelativeRules gives the copies of a rule that differ in their Namespace alone a definite
// order: the recorded order is that of a Go map.
func sortRelativeRules(objects any) {
	list, _ := objects.([]any)
	for _, o := range list {
		rules, _ := o.(map[string]any)["rules"].([]any)
		key := func(r any) string {
			text, err := json.Marshal(r)
			if err != nil {
				panic(err)
			}
			m := r.(map[string]any)
			direction, _ := m["direction"].(string)
			priority, _ := m["priority"].(float64)
			return direction + string(rune(priority+10)) + string(text)
		}
		slices.SortStableFunc(rules, func(a, b any) int { return strings.Compare(key(a), key(b)) })
	}
}
