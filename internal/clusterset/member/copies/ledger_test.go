package copies

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// TestLedger: the hub is told of what becomes of a policy when that changes, and of all in a new
// stream; an edit is undone; and what the hub does not list is removed.
func TestLedger(t *testing.T) {
	l := New(false)
	told := func() (out []string) {
		all, _ := l.NextRealized()
		for _, r := range all {
			out = append(out, r.UID+" "+r.Phase+" "+r.Reason)
		}
		slices.Sort(out)
		return out
	}
	expect := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	copied := func(generation int64) client.Object {
		return &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "hub-p", UID: "here", Generation: generation,
			Annotations: map[string]string{setv1alpha1.AnnotationSource: "p", setv1alpha1.AnnotationSourceGeneration: "7"}}}
	}

	l.Want(&wire.Policy{UID: "p", Generation: 7})
	l.Want(&wire.Policy{UID: "q", Generation: 1})
	expect("to write", l.TakeDirty(), "p", "q")
	expect("to write again", l.TakeDirty())
	if !l.Result("q", l.Wanted("q"), Refuse(NoNamespace, "there is no Namespace")) || l.Result("p", l.Wanted("p"), nil) {
		t.Error("a refusal is news for the hub, and a success none before the copy is seen")
	}
	if l.Result("q", l.Wanted("q"), Refuse(NoNamespace, "there is no Namespace")) {
		t.Error("the same refusal is told twice")
	}
	if l.Hear(copied(1), false) {
		t.Error("what was just written is taken for an edit")
	}
	expect("told", told(), "p Pending ", "q Failed NoNamespace")
	expect("told again", told())

	if !l.Hear(copied(2), false) {
		t.Error("an edit is not noticed")
	}
	if !l.NamespaceCame() {
		t.Error("what lacked its Namespace is not tried again")
	}
	expect("after an edit and a new Namespace", l.TakeDirty(), "p", "q")
	l.Result("q", l.Wanted("q"), errors.New("the API server is away"))
	expect("another failure", told(), "q Failed Rejected")
	l.Begin()
	expect("a new stream", told(), "p Pending ", "q Failed Rejected")

	l.Synced([]string{"p"})
	expect("what the hub does not list", l.TakeDirty(), "q")
	l.Result("q", nil, nil)
	if sources, behind := l.Sources(); behind || len(sources) != 1 || sources["p"] != 7 || !l.Listed() {
		t.Errorf("%v %t %t", sources, behind, l.Listed())
	}
	if !l.Hear(copied(2), true) || l.Copies() != 0 {
		t.Error("a copy that somebody deletes is not written again")
	}
}
