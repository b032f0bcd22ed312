package control

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/nephele-io/nephele/internal/kinds"
)

// TestComputedKinds: of every kind that the table says is computed from, the controller listens to
// the informer, counts what it hears, and gives it to the engine. Of no other.
func TestComputedKinds(t *testing.T) {
	w := newTestWorld(t)
	served := &servedKinds{resources: map[string][]string{}}
	w.Options.Discovery = served
	for _, k := range kinds.Of(kinds.Computed | kinds.Optional) {
		version := k.GroupVersion().String()
		served.resources[version] = append(served.resources[version], k.Resource)
	}
	sources, err := w.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(sources), len(kinds.Of(kinds.Computed)); got != want {
		t.Errorf("%d kinds are listened to, want the %d of the table: %v", got, want, sources)
	}
	informers := w.Options.Informers.(*handInformers)
	for _, k := range kinds.Of(kinds.Computed) {
		object := k.New()
		object.SetName("x")
		object.SetUID("u")
		name := nameOf(k)
		if name.isPolicy() != (k.Policy != "") {
			t.Errorf("%s: isPolicy() is %v, and the table says %q", name, name.isPolicy(), k.Policy)
		}
		if got := kindOf(object); got != name {
			t.Errorf("%s is called %q by the table and %q by the tests", k.Kind, name, got)
		}
		for _, event := range []struct {
			what string
			send func(*controllertest.FakeInformer)
		}{
			{"one that is new", func(i *controllertest.FakeInformer) { i.Add(object) }},
			{"one that has changed", func(i *controllertest.FakeInformer) { i.Update(object, object) }},
			{"one that is gone", func(i *controllertest.FakeInformer) { i.Delete(object) }},
		} {
			before := w.Heard()
			if event.send(informers.of(object)); w.Heard() == before {
				t.Errorf("%s: %s is not heard of", name, event.what)
			}
		}
		if k.Policy == "" && !w.applyObject(input{kind: name, object: object}) {
			t.Errorf("%s: the engine does not get it", name)
		}
	}
	// A kind whose definition goes away takes its policies along, and no informer says so.
	policy := kinds.Of(kinds.Computed | kinds.Optional)[0].New()
	policy.SetName("x")
	informers.of(policy).Add(policy)
	served.serve(nil, false)
	before := w.Heard()
	for range missesUntilGone {
		if _, err := w.upstream.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if w.Heard() == before {
		t.Error("that a kind is gone, and its policies with it, is not heard of")
	}
	for _, k := range kinds.All() {
		if object := client.Object(k.New()); !k.Is(kinds.Computed) && w.applyObject(input{kind: nameOf(k), object: object}) {
			t.Errorf("%s: the engine gets it, and the table does not say that policies are computed from it", k.Kind)
		}
	}
}
