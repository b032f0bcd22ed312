package register

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// TestConfigMap: two processes with a ConfigMap between them.
func TestConfigMap(t *testing.T) {
	t.Parallel()
	deny := false
	forbid := func() error {
		if deny {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, RecordName, errors.New("RBAC"))
		}
		return nil
	}
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return errors.Join(forbid(), c.Get(ctx, key, o, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return cmpError(forbid(), func() error { return c.Update(ctx, o, opts...) })
		},
	}).Build()
	reg := ConfigMap{Reader: c, Writer: c, Namespace: "kube-system"}
	r, v, err := reg.Load(t.Context())
	if err != nil || v != "" || len(r.Line) != 0 {
		t.Fatalf("%+v %q %v", r, v, err)
	}
	first := tenure.Record{Line: []tenure.Mark{{Epoch: "a", Sequence: 1, Heartbeat: 10 * time.Second}}, Stopped: map[string]string{"ns/x": "else"}}
	v1, err := reg.Store(t.Context(), first, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Store(t.Context(), first, ""); !errors.Is(err, ErrOvertaken) {
		t.Errorf("created twice: %v", err)
	}
	v2, err := reg.Store(t.Context(), first.Led(tenure.Mark{Epoch: "a", Sequence: 2, Heartbeat: 10 * time.Second}), v1)
	if err != nil || v2 == v1 {
		t.Fatalf("%q %v", v2, err)
	}
	if _, err := reg.Store(t.Context(), first, v1); !errors.Is(err, ErrOvertaken) {
		t.Errorf("written over: %v", err)
	}
	r, v, err = reg.Load(t.Context())
	if err != nil || v != v2 || r.Line[0].Sequence != 2 || r.Stopped["ns/x"] != "else" {
		t.Errorf("%+v %q %v", r, v, err)
	}
	deny = true
	if _, _, err := reg.Load(t.Context()); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	if _, err := reg.Store(t.Context(), r, v); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "RBAC") {
		t.Error(err)
	}
}

func cmpError(first error, then func() error) error {
	if first != nil {
		return first
	}
	return then()
}
