package preview_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/explain/redact"
	"github.com/nephele-io/nephele/internal/preview"
)

const goodPolicy = `apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {}}]
  ingress: [{action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]
`

func propose(t *testing.T, spec v1alpha1.PlanReviewSpec, rights preview.Rights) (*preview.Proposal, []v1alpha1.ManifestError, error) {
	t.Helper()
	return preview.Propose(spec, nil, rights)
}

// TestProposalsAreChecked: what is wrong with manifests is told with document, line, object, field
// and reason, and what is too much is not taken.
func TestProposalsAreChecked(t *testing.T) {
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: keys, namespace: shop}\nstringData: {credentials: hush}\n"
	account := "apiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudProviderAccount\nmetadata: {name: mine, namespace: shop}\n" +
		"spec: {awsConfig: {region: [eu-west-1], endpoint: 'http://192.0.2.1', secretRef: {name: keys, namespace: shop, key: credentials}}}\n"
	writer := preview.Rights{May: func(verb, group, resource, namespace, _ string) bool { return namespace == "shop" }}
	for name, c := range map[string]struct {
		text   string
		rights preview.Rights
		want   v1alpha1.ManifestError
	}{
		"no YAML":         {"a: b: c", preview.Rights{}, v1alpha1.ManifestError{Reason: v1alpha1.ErrorUnreadable, Code: http.StatusBadRequest, Document: 1, Line: 1}},
		"an unknown kind": {goodPolicy + "---\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolice\nmetadata: {name: x}\n", preview.Rights{}, v1alpha1.ManifestError{Reason: v1alpha1.ErrorUnreadable, Code: http.StatusBadRequest, Document: 2, Line: 9, Field: "kind"}},
		"an unknown field": {strings.Replace(goodPolicy, "priority: 5", "prio: 5", 1), preview.Rights{}, v1alpha1.ManifestError{
			Reason: v1alpha1.ErrorUnreadable, Code: http.StatusBadRequest, Document: 1, Line: 5, Field: "spec.prio", Object: &v1alpha1.ObjectReference{Group: "crd.antrea.io", Kind: "NetworkPolicy", Namespace: "shop", Name: "web"}}},
		"a wrong block": {"---\n" + strings.Replace(goodPolicy, "10.0.0.0/8", "10.0.0.0/80", 1), preview.Rights{}, v1alpha1.ManifestError{
			Reason: v1alpha1.ErrorInvalid, Code: http.StatusUnprocessableEntity, Document: 2, Line: 8, Object: &v1alpha1.ObjectReference{Group: "crd.antrea.io", Kind: "NetworkPolicy", Namespace: "shop", Name: "web"}}},
		"a Secret": {secret, preview.Rights{}, v1alpha1.ManifestError{
			Reason: v1alpha1.ErrorKindNotTaken, Code: http.StatusUnprocessableEntity, Document: 1, Line: 1, Object: &v1alpha1.ObjectReference{Kind: "Secret", Namespace: "shop", Name: "keys"}}},
		"an account of a caller that does not see everything": {account, writer, v1alpha1.ManifestError{
			Reason: v1alpha1.ErrorKindNotTaken, Code: http.StatusForbidden, Document: 1, Line: 1, Object: &v1alpha1.ObjectReference{Group: "crd.cloud.antrea.io", Kind: "CloudProviderAccount", Namespace: "shop", Name: "mine"}}},
		"another Namespace": {strings.Replace(goodPolicy, "namespace: shop", "namespace: theirs", 1), writer, v1alpha1.ManifestError{
			Reason: v1alpha1.ErrorForbidden, Code: http.StatusForbidden, Document: 1, Line: 1, Object: &v1alpha1.ObjectReference{Group: "crd.antrea.io", Kind: "NetworkPolicy", Namespace: "theirs", Name: "web"}}},
		"too many": {strings.Repeat("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n", 501), preview.Rights{}, v1alpha1.ManifestError{}},
	} {
		_, errs, err := propose(t, v1alpha1.PlanReviewSpec{Manifests: c.text}, c.rights)
		if err != nil || len(errs) == 0 {
			t.Errorf("%s: %v, %v, want errors", name, errs, err)
			continue
		}
		if name == "too many" {
			if last := errs[len(errs)-1]; len(errs) > 50 || !slices.ContainsFunc(errs, func(e v1alpha1.ManifestError) bool { return e.Reason == v1alpha1.ErrorUnreadable }) {
				t.Errorf("%s: %d errors, the last %+v", name, len(errs), last)
			}
			continue
		}
		got := errs[0]
		if got.Message == "" || strings.Contains(got.Message, "hush") {
			t.Errorf("%s: the message is %q", name, got.Message)
		}
		if got.Message = ""; c.want.Field == "" {
			got.Field = ""
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%s, want\n%s", name, asJSON(got), asJSON(c.want))
		}
	}
	var many strings.Builder
	for i := range 501 {
		fmt.Fprintf(&many, "apiVersion: v1\nkind: Namespace\nmetadata: {name: n%d}\n---\n", i)
	}
	if _, errs, _ := propose(t, v1alpha1.PlanReviewSpec{Manifests: many.String()}, preview.Rights{}); len(errs) != 1 || errs[0].Reason != v1alpha1.ErrorTooMuch {
		t.Errorf("501 objects: %+v", errs)
	}
	for name, spec := range map[string]v1alpha1.PlanReviewSpec{
		"a large text": {Manifests: "# " + strings.Repeat("x", preview.MaxManifests)}, "many to delete": {Delete: make([]v1alpha1.ObjectReference, 501)}, "no account": {Account: "x"},
	} {
		if _, _, err := propose(t, spec, preview.Rights{}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, errs, err := propose(t, v1alpha1.PlanReviewSpec{Manifests: goodPolicy}, writer); err != nil || len(errs) > 0 {
		t.Errorf("a good policy is refused: %v, %v", errs, err)
	}
}

func asJSON(v any) string {
	out, _ := json.Marshal(v)
	return string(out)
}

// TestForeignObjectsAreNotDisclosed: whether there is an object in a Namespace that somebody may
// not write is not told, neither for what he brings nor for what he would delete.
func TestForeignObjectsAreNotDisclosed(t *testing.T) {
	nobody := preview.Rights{May: func(string, string, string, string, string) bool { return false }}
	var answers []string
	for _, name := range []string{"there", "absent"} {
		spec := v1alpha1.PlanReviewSpec{
			Manifests: strings.Replace(goodPolicy, "name: web", "name: "+name, 1),
			Delete:    []v1alpha1.ObjectReference{{Group: "crd.antrea.io", Kind: "Group", Namespace: "theirs", Name: name}},
		}
		_, errs, err := propose(t, spec, nobody)
		if err != nil || len(errs) != 2 {
			t.Fatalf("%v, %v, want two errors", errs, err)
		}
		answers = append(answers, strings.ReplaceAll(asJSON(errs), name, "X"))
	}
	if answers[0] != answers[1] {
		t.Errorf("the answers differ:\n%s\n%s", answers[0], answers[1])
	}
}

// TestSelectorsTellNothingOfOthers: the answer about a policy that names peers by labels does not
// depend on the members with these labels that its author may not see.
func TestSelectorsTellNothingOfOthers(t *testing.T) {
	policy := `apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: probe, namespace: mine}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {app: web}}}]
  ingress: [{action: Allow, from: [{namespaceSelector: {}, externalEntitySelector: {matchLabels: {secret: plan}}}, {namespaceSelector: {matchLabels: {project: merger}}, externalEntitySelector: {}}]}]
`
	answer := func(labels, ofNamespace map[string]string, others int) string {
		in := &input.Objects{Namespaces: []*corev1.Namespace{
			{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, {ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: ofNamespace}},
		}}
		entity := func(namespace, name, ip string, labels map[string]string) {
			in.Entities = append(in.Entities, &v1alpha2.ExternalEntity{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
				Spec:       v1alpha2.ExternalEntitySpec{Endpoints: []v1alpha2.Endpoint{{IP: ip}}, ExternalNode: "cloud/theirs/account"},
			})
		}
		entity("mine", "web", "10.0.0.1", map[string]string{"app": "web"})
		entity("mine", "db", "10.0.0.2", nil)
		for i := range others {
			entity("theirs", fmt.Sprint("x", i), fmt.Sprint("10.0.1.", i+1), labels)
		}
		view := redact.View{Namespace: func(n string) bool { return n == "mine" }}
		c := explain.Compute(in).For(view)
		before := preview.Before{Computed: c, World: func() *explain.World { return c.World(false) }}
		spec := v1alpha1.PlanReviewSpec{Manifests: policy, Map: true}
		p, errs, err := propose(t, spec, preview.Rights{May: func(_, _, _, namespace, _ string) bool { return namespace == "mine" }})
		if err != nil || len(errs) > 0 {
			t.Fatal(errs, err)
		}
		status, err := preview.Limited(t.Context(), before, view, p, spec)
		if err != nil {
			t.Fatal(err)
		}
		if len(status.Accounts) > 0 || !status.Limited || len(status.Map.Nodes) == 0 || len(status.Map.Edges) == 0 {
			t.Fatalf("the answer is %s", asJSON(status))
		}
		return asJSON(status)
	}
	want := answer(nil, nil, 3)
	if !strings.Contains(want, v1alpha1.ChangeCloses) {
		t.Errorf("the policy closes nothing: %s", want)
	}
	for name, got := range map[string]string{
		"members with the label": answer(map[string]string{"secret": "plan"}, nil, 3), "the label of the Namespace": answer(nil, map[string]string{"project": "merger"}, 3),
		"how many they are": answer(map[string]string{"secret": "plan"}, nil, 2),
	} {
		if got != want {
			t.Errorf("%s is told:\n%s\n%s", name, got, want)
		}
	}
}
