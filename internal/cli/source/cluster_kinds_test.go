package source

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/internal/kinds"
)

// A cluster need not have the upstream kinds; anything else that goes wrong in reading them is
// told.
func TestUpstreamKindsNeedNotBeServed(t *testing.T) {
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	failing := func(failure error) client.Client {
		return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if reflect.TypeOf(list).Elem().PkgPath() == "sigs.k8s.io/network-policy-api/apis/v1alpha2" {
					return failure
				}
				return c.List(ctx, list, opts...)
			},
		}).Build()
	}
	kind := schema.GroupKind{Group: "policy.networking.k8s.io", Kind: "ClusterNetworkPolicy"}
	if in, err := Inputs(t.Context(), failing(&meta.NoKindMatchError{GroupKind: kind})); err != nil || len(in.Objects.UpstreamPolicies) != 0 {
		t.Errorf("without the kind: %v", err)
	}
	if _, err := Inputs(t.Context(), failing(errors.New("no answer"))); err == nil {
		t.Error("a failure is taken for an empty list")
	}
}
