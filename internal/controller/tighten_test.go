package controller

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// oneInformer is the informer of all kinds.
type oneInformer struct{ controllertest.FakeInformer }

func (i *oneInformer) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return &i.FakeInformer, nil
}

// TestFollowTightening: an annotation changes neither the generation of a policy nor what is
// computed from it, and is told all the same.
func TestFollowTightening(t *testing.T) {
	t.Parallel()
	in, told := &oneInformer{}, 0
	if err := followTightening(t.Context(), in, func() { told++ }); err != nil {
		t.Fatal(err)
	}
	policy := func(annotation string) *antreav1beta1.NetworkPolicy {
		p := &antreav1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p"}}
		if annotation != "" {
			p.Annotations = map[string]string{cloudv1.AnnotationOnRefusal: annotation}
		}
		return p
	}
	const kinds = 2 // are followed, here by the same informer
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"a plain policy", func() { in.Add(policy("")) }, 0},
		{"the annotation comes", func() { in.Update(policy(""), policy(cloudv1.OnRefusalTighten)) }, kinds},
		{"another change", func() { in.Update(policy(cloudv1.OnRefusalTighten), policy(cloudv1.OnRefusalTighten)) }, 0},
		{"it goes", func() { in.Update(policy(cloudv1.OnRefusalTighten), policy("keep")) }, kinds},
		{"a policy that has it", func() { in.Add(policy(cloudv1.OnRefusalTighten)) }, kinds},
	} {
		told = 0
		if step.do(); told != step.want {
			t.Errorf("%s: told %d times, want %d", step.name, told, step.want)
		}
	}
}
