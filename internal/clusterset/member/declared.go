package member

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

// The ClusterProperties of the About API with the name of a cluster in its set, and the name of the
// set.
const (
	propertyName = "cluster.clusterset.k8s.io"
	propertySet  = "clusterset.k8s.io"
)

// declaredPause is how often these are read.
const declaredPause = time.Minute

// declare reads what the cluster declares of itself, if that was not done for some time. What
// cannot be read stays as it was.
func declare(ctx context.Context, m *Member) {
	m.mu.Lock()
	now := m.Clock.Now()
	due := m.state.declaredAt.IsZero() || now.Sub(m.state.declaredAt) >= declaredPause
	if due {
		m.state.declaredAt = now
	}
	next := m.state.declared
	m.mu.Unlock()
	if !due {
		return
	}
	for property, into := range map[string]*string{propertyName: &next.Name, propertySet: &next.Set} {
		value, err := propertyOf(ctx, m.Live, property)
		if err != nil {
			if ctx.Err() == nil {
				m.Log.V(1).Info("A ClusterProperty cannot be read, trying again", "name", property, "reason", err.Error())
			}
			return
		}
		*into = wire.Shortened(value)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.declared = next
}

// propertyOf is the value of a ClusterProperty; empty if there is none, or not for us to read.
func propertyOf(ctx context.Context, c client.Reader, name string) (string, error) {
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "about.k8s.io", Version: version, Kind: "ClusterProperty"})
		switch err := c.Get(ctx, client.ObjectKey{Name: name}, o); {
		case err == nil:
			value, _, err := unstructured.NestedString(o.Object, "spec", "value")
			return value, err
		case meta.IsNoMatchError(err), apierrors.IsForbidden(err):
		case apierrors.IsNotFound(err):
			return "", nil
		default:
			return "", err
		}
	}
	return "", nil
}

// contradiction describes how what the cluster declares of itself differs from the set; empty if it
// does not, or if nothing is declared.
func contradiction(d wire.Declared, name string) string {
	if d.Name == "" || d.Name == name {
		return ""
	}
	return "the ClusterProperty " + propertyName + " of this cluster says " + d.Name + ", and in the set it is " + name
}
