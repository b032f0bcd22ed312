package apiserver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// An informer of client-go has what a list returns, under churn and after a restart of the server: of policies name, generation and
// resource version, of groups (whose changes come as patches, which it takes for the group) the names.
func TestInformersStayInSync(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t)
	cfg := w.config("agent", "")
	cfg.NegotiatedSerializer, cfg.GroupVersion = nil, nil
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer factory.Shutdown()
	defer cancel()
	for _, r := range watchstore.Resources() {
		factory.ForResource(v1beta2.GroupVersion().WithResource(string(r))).Informer()
	}
	factory.Start(ctx.Done())
	c := newChurn(seed)
	for round := range 2 {
		for i := range 300 {
			w.store.Publish(c.step(int64(1000*round + i)))
		}
		for _, r := range watchstore.Resources() {
			gvr := v1beta2.GroupVersion().WithResource(string(r))
			informer := factory.ForResource(gvr).Informer()
			eventually(t, "in sync", func() error {
				want, _, err := w.store.List(r, "")
				if err != nil {
					return err
				}
				var got, expect []string
				for _, o := range informer.GetStore().List() {
					got = append(got, line(r, o.(*unstructured.Unstructured)))
				}
				for _, o := range want {
					expect = append(expect, line(r, o.(object)))
				}
				slices.Sort(got)
				slices.Sort(expect)
				if !slices.Equal(got, expect) {
					return fmt.Errorf("%s: informer has %v, want %v", r, got, expect)
				}
				return nil
			})
		}
		if round == 0 {
			w.restart(t)
		}
	}
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
