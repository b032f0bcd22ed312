package records

import (
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

// TestRecords: changes wait and are written together, what the hub answers for the first time does
// not wait, and what could not be written stays due.
func TestRecords(t *testing.T) {
	s := runtime.NewScheme()
	if err := setv1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(s).Build()
	now := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	r := New(Options{Client: c, Live: c, Clock: now})
	content := func(string) (Content, error) { return Content{Known: true, Text: []byte("x"), Members: 3}, nil }
	only := func(name string) func(string) bool { return func(g string) bool { return g == name } }
	expect := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}

	r.Changed([]string{"b", "a"})
	expect("at first", r.Due(only("")), "a", "b")
	if err := r.Write(t.Context(), []string{"a", "b"}, content); err != nil || r.Waiting() {
		t.Fatal(err, r.Waiting())
	}
	var written setv1alpha1.RemoteGroup
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &written); err != nil || written.Members != 3 {
		t.Errorf("%+v %v", written, err)
	}
	expect("missing", r.Missing([]string{"a", "c"}), "c")

	r.Changed([]string{"a", "c", "d"})
	expect("shortly after", r.Due(only("c")), "c")
	now.Step(Pause)
	expect("later", r.Due(only("")), "a", "c", "d")

	no := errors.New("no")
	if err := r.Write(t.Context(), []string{"c", "d"}, func(string) (Content, error) { return Content{}, no }); !errors.Is(err, no) {
		t.Fatal(err)
	}
	now.Step(Pause)
	expect("after a failure", r.Due(only("")), "a", "c", "d")

	gone := func(string) (Content, error) { return Content{}, nil }
	if err := r.Write(t.Context(), []string{"a", "c", "d"}, gone); err != nil || r.Waiting() {
		t.Fatal(err, r.Waiting())
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &written); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("a group that is none any more is still on record: %v", err)
	}
	expect("missing then", r.Missing([]string{"a", "b"}), "a")
}
