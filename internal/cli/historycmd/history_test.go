package historycmd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/history"
	"github.com/nephele-io/nephele/internal/kinds"
)

// revisionOf is a revision of the policy shop/p.
func revisionOf(number int64, change v1alpha1.RevisionChange, content string) *v1alpha1.PolicyRevision {
	r := &v1alpha1.PolicyRevision{}
	r.Namespace, r.Name = "shop", "annp-p-"+string(rune('0'+number))
	r.Spec = v1alpha1.RevisionSpec{
		Object: v1alpha1.RevisedObject{Group: "crd.antrea.io", Version: "v1beta1", Kind: "NetworkPolicy", Namespace: "shop", Name: "p", UID: "u"},
		Number: number, Change: change, Generation: number, Time: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, int(number), 0, time.UTC)), Content: content,
	}
	return r
}

const (
	thenContent = `{"apiVersion":"crd.antrea.io/v1beta1","kind":"NetworkPolicy","metadata":{"name":"p","namespace":"shop","labels":{"old":"label"},"annotations":{"nephele.io/on-refusal":"keep"}},` +
		`"spec":{"priority":5,"appliedTo":[{"podSelector":{}}],"ingress":[{"action":"Drop","name":"r"}]}}`
	laterContent = `{"apiVersion":"crd.antrea.io/v1beta1","kind":"NetworkPolicy","metadata":{"name":"p","namespace":"shop"},` +
		`"spec":{"priority":7,"appliedTo":[{"podSelector":{}}],"ingress":[{"action":"Drop","name":"r"}]}}`
)

func historyCluster(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// TestHistoryTable: the youngest first, with author and outcome; what strangers wrote does nothing
// to the terminal.
func TestHistoryTable(t *testing.T) {
	first, second, third := revisionOf(1, "Created", thenContent), revisionOf(2, "Changed", laterContent), revisionOf(3, "Deleted", "")
	first.Spec.Author = v1alpha1.RevisionAuthor{User: "alice", Manager: "kubectl"}
	first.Status = v1alpha1.RevisionStatus{Phase: "Realized", VMs: "2/2"}
	second.Spec.Author = v1alpha1.RevisionAuthor{Manager: "helm\x1b[2J"}
	second.Status = v1alpha1.RevisionStatus{Phase: "Failed", VMs: "1/2", Message: "refused on 1 of 2 VMs: needs 73 ingress rules in one group, quota 60",
		Accounts: []v1alpha1.RevisionAccount{{Account: "vms/prod", Calls: map[string]int64{"CreateTags": 2}, Failed: 1, LastError: "CreateTags: denied"}}}
	tier := &v1alpha1.ClusterPolicyRevision{Spec: v1alpha1.RevisionSpec{Object: v1alpha1.RevisedObject{Kind: "Tier", Name: "gold"}, Number: 1, Change: "Found"}}
	tier.Name = "tr-gold-1"
	c := historyCluster(t, first, second, third, tier)
	for _, x := range []struct {
		filter history.Filter
		want   string
	}{
		{history.Filter{}, `WHEN                 REVISION       CHANGE   BY               RESULT
2026-01-02 03:04:03  shop/annp-p-3  Deleted  ?
2026-01-02 03:04:02  shop/annp-p-2  Changed  ? (helm\x1b[2J)  Failed 1/2: refused on 1 of 2 VMs: needs 73 ingress rules in one group, quota 60 (1 call failed)
2026-01-02 03:04:01  shop/annp-p-1  Created  alice (kubectl)  Realized 2/2
0001-01-01 00:00:00  tr-gold-1      Found    ?
`},
		{history.Filter{Policy: "gold"}, "tr-gold-1"},
		{history.Filter{Policy: "p", Namespace: "shop"}, "annp-p-3 annp-p-2 annp-p-1"},
		{history.Filter{Policy: "shop/p", Account: "vms/prod"}, "annp-p-2"},
		{history.Filter{Policy: "shop/q"}, ""},
		{history.Filter{Since: third.Spec.Time.Time}, "annp-p-3"},
		{history.Filter{Namespace: "other"}, ""},
	} {
		all, _, err := history.List(t.Context(), c, x.filter)
		if err != nil {
			t.Fatal(err)
		}
		got := table(all)
		if !strings.HasPrefix(x.want, "WHEN") {
			var names []string
			for _, r := range all {
				names = append(names, strings.TrimPrefix(r.Name, "shop/"))
			}
			got = strings.Join(names, " ")
		}
		if got != x.want {
			t.Errorf("%+v:\n%s", x.filter, cmp.Diff(x.want, got))
		}
	}
	var out bytes.Buffer
	r, err := history.Get(t.Context(), c, "shop", "annp-p-2")
	if err != nil {
		t.Fatal(err)
	}
	if err := showRevision(t.Context(), c, r, &out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"Against revision shop/annp-p-1:", "-   priority: 5", "+   priority: 7", "-     old: label", "vms/prod: 2 CreateTags", "1 call failed, the last one: CreateTags: denied"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is missing in\n%s", part, out.String())
		}
	}
}

// noPlan is a cluster for which no plan can be made.
type noPlan struct{ Planner }

func (noPlan) Plan(*cobra.Command, []byte) error { return errors.New("no such kubeconfig") }

// TestHistoryApply: what was is written again, with the spec and the annotations of ours and
// nothing else, into this policy and no other, and only after a yes. What somebody has changed
// since it was shown is left alone.
func TestHistoryApply(t *testing.T) {
	live := &antreav1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "u", Labels: map[string]string{"mine": "label"},
		Annotations: map[string]string{"nephele.io/stage": "plan", "other": "note"}}, Spec: antreav1beta1.NetworkPolicySpec{Priority: 7}}
	bystander := live.DeepCopy()
	bystander.Name, bystander.UID = "q", "v"
	for name, x := range map[string]struct {
		gone, yes, without, changed bool
		answer                      string
		err                         string
		no, written                 bool
	}{
		"no plan":           {yes: true, err: "the plan cannot be made"},
		"yes":               {without: true, answer: "yes\n", written: true},
		"not asked":         {without: true, yes: true, written: true},
		"no":                {without: true, answer: "n\n", no: true},
		"no answer":         {without: true, no: true},
		"created again":     {without: true, yes: true, gone: true, written: true},
		"changed meanwhile": {without: true, yes: true, changed: true, err: "changed by somebody while you looked"},
	} {
		objects := []client.Object{bystander.DeepCopy(), revisionOf(1, "Created", thenContent)}
		if !x.gone {
			objects = append(objects, live.DeepCopy())
		}
		plain := historyCluster(t, objects...)
		var written []string
		c := interceptor.NewClient(plain, interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if x.changed {
					var now antreav1beta1.NetworkPolicy
					if err := c.Get(ctx, client.ObjectKeyFromObject(o), &now); err != nil {
						return err
					}
					now.Spec.Priority = 9
					if err := c.Update(ctx, &now); err != nil {
						return err
					}
				}
				written = append(written, o.GetName())
				return c.Update(ctx, o, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				written = append(written, o.GetName())
				return c.Create(ctx, o, opts...)
			},
		})
		r, then, err := contentOf(t.Context(), c, "", "shop/annp-p-1")
		if err != nil {
			t.Fatal(err)
		}
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetIn(strings.NewReader(x.answer))
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		f := plansWith(noPlan{})
		err = f.apply(cmd, c, r, then, x.yes, x.without)
		if errors.Is(err, terminal.ErrNo) != x.no || (x.err == "") == (err != nil && !x.no) || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
		if !strings.Contains(out.String(), "+   priority: 5") {
			t.Errorf("%s: it is not shown what changes:\n%s", name, out.String())
		}
		if x.written != (len(written) == 1 && written[0] == "p") && !x.changed {
			t.Errorf("%s: wrote %v", name, written)
		}
		var now antreav1beta1.NetworkPolicy
		if err := plain.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "p"}, &now); err != nil {
			t.Fatal(err)
		}
		want := live.DeepCopy()
		switch {
		case x.changed:
			want.Spec.Priority = 9
		case x.gone:
			want.Labels, want.Annotations = map[string]string{"old": "label"}, map[string]string{"nephele.io/on-refusal": "keep"}
		case x.written:
			want.Annotations = map[string]string{"nephele.io/on-refusal": "keep", "other": "note"}
		}
		if x.written {
			want.Spec.Priority = 5
		}
		if now.Spec.Priority != want.Spec.Priority || !cmp.Equal(now.Labels, want.Labels) || !cmp.Equal(now.Annotations, want.Annotations) {
			t.Errorf("%s: it is now %v %v priority %v", name, now.Labels, now.Annotations, now.Spec.Priority)
		}
	}
}

// TestLineDiff: what goes, what comes, and what stays around it.
func TestLineDiff(t *testing.T) {
	for _, x := range []struct{ before, after, want string }{
		{"a\nb\n", "a\nb\n", ""},
		{"", "a\n", "+ a"},
		{"a\n", "", "- a"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n", "  ...|  2|  3|  4|- 5|+ five|  6|  7|  8|  ..."},
		{"a\nb\nc\n", "b\nc\nd\n", "- a|  b|  c|+ d"},
	} {
		if got := strings.Join(lineDiff(x.before, x.after), "|"); got != x.want {
			t.Errorf("%q to %q: %q, want %q", x.before, x.after, got, x.want)
		}
	}
	long := strings.Repeat("x\n", 3000)
	if n := len(lineDiff("a\n"+long, strings.ReplaceAll(long, "x", "y"))); n != 6001 {
		t.Errorf("%d lines", n)
	}
}

// TestUnprovenIsShown: what the controller has not signed is called unproven, in the table and
// beside a single revision; where the keys are not known, that is said.
func TestUnprovenIsShown(t *testing.T) {
	first, second := revisionOf(1, "Created", thenContent), revisionOf(2, "Changed", laterContent)
	c := historyCluster(t)
	keys := history.NewKeys(history.KeysOptions{Client: c, Reader: c, Namespace: history.KeysNamespace, Clock: clock.RealClock{}, Log: logr.Discard()})
	proof, err := keys.Prove(t.Context(), &first.Spec)
	if err != nil {
		t.Fatal(err)
	}
	first.Spec.Proof = proof
	all := []history.Revision{{Name: "shop/annp-p-1", Spec: first.Spec}, {Name: "shop/annp-p-2", Spec: second.Spec}}
	if notes := proofs(t.Context(), c, pointers(all)); len(notes) > 0 {
		t.Error(notes)
	}
	if shown := table(all); strings.Count(shown, "unproven") != 1 || !strings.Contains(shown, "Changed, unproven") {
		t.Error(shown)
	}
	if notes := proofs(t.Context(), c, pointers(all)[1:]); len(notes) != 1 || !strings.Contains(notes[0], "shop/annp-p-2 is unproven: it carries no proof") {
		t.Error(notes)
	}
	if notes := proofs(t.Context(), historyCluster(t), pointers(all)); len(notes) != 1 || !strings.Contains(notes[0], "cannot be verified") || all[0].Unproven == "" {
		t.Error(notes)
	}
}
