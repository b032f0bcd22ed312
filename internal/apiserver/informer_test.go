package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/seed"
)

// Informers of client-go, of everything and of one key, have what a list returns, under churn,
// after connections broke and after a restart of the server: of policies name, generation and
// resource version, of groups (whose changes come as patches, which they take for the group) the
// names.
func TestInformersStayInSync(t *testing.T) {
	t.Parallel()
	seed := seed.Of(t)
	w := newWorld(t)
	network := newWire(t, w.address)
	cfg, err := network.config(w)()
	if err != nil {
		t.Fatal(err)
	}
	cfg.NegotiatedSerializer, cfg.GroupVersion = nil, nil
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	factories := map[string]dynamicinformer.DynamicSharedInformerFactory{}
	for _, key := range []string{"", "ns/vm"} {
		f := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, "", func(o *metav1.ListOptions) {
			if key != "" {
				o.FieldSelector = "nodeName=" + key
			}
		})
		defer f.Shutdown()
		for _, r := range watchstore.Resources() {
			f.ForResource(v1beta2.GroupVersion().WithResource(string(r))).Informer()
		}
		factories[key] = f
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, f := range factories {
		f.Start(ctx.Done())
	}
	c := newChurn(seed)
	for round, disturb := range []func(){network.cut, func() { w.restart(t) }, func() {}} {
		for i := range 300 {
			w.store.Publish(c.step(int64(1000*round + i)))
		}
		for key, f := range factories {
			for _, r := range watchstore.Resources() {
				informer := f.ForResource(v1beta2.GroupVersion().WithResource(string(r))).Informer()
				eventually(t, "in sync", func() error { return compareInformer(w.store, r, key, informer.GetStore().List()) })
			}
		}
		disturb()
	}
}

func compareInformer(store *watchstore.Store, r watchstore.Resource, key string, has []any) error {
	want, _, err := store.List(r, key)
	if err != nil {
		return err
	}
	var got, expect []string
	for _, o := range has {
		got = append(got, line(r, o.(*unstructured.Unstructured)))
	}
	for _, o := range want {
		expect = append(expect, line(r, o.(object)))
	}
	slices.Sort(got)
	slices.Sort(expect)
	if !slices.Equal(got, expect) {
		return fmt.Errorf("%s of %q: informer has %v, want %v", r, key, got, expect)
	}
	return nil
}

// object is what both a typed and an unstructured object are.
type object interface {
	GetName() string
	GetGeneration() int64
	GetResourceVersion() string
}

func line(r watchstore.Resource, o object) string {
	if r == watchstore.NetworkPolicies {
		return fmt.Sprintf("%s %d %s", o.GetName(), o.GetGeneration(), o.GetResourceVersion())
	}
	return o.GetName()
}
