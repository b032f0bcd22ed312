package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownNameProperty is the ClusterProperty of the About API with the name that a cluster has in its
// set.
const ownNameProperty = "cluster.clusterset.k8s.io"

// ownName is what a cluster calls itself by the About API; empty if it says nothing.
func ownName(ctx context.Context, c client.Reader) (string, error) {
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		o, err := found(ctx, c, schema.GroupVersionKind{Group: "about.k8s.io", Version: version, Kind: "ClusterProperty"}, client.ObjectKey{Name: ownNameProperty})
		if err != nil {
			return "", err
		}
		if o != nil {
			value, _, err := unstructured.NestedString(o.Object, "spec", "value")
			return value, err
		}
	}
	return "", nil
}

// found reads an object of a kind that need not be installed, and that need not be for this person;
// nil if there is none.
func found(ctx context.Context, c client.Reader, kind schema.GroupVersionKind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	switch err := c.Get(ctx, key, o); {
	case err == nil:
		return o, nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	default:
		return nil, fmt.Errorf("read %s %s: %w", kind.Kind, key, err)
	}
}

// profileLabels are the labels of a ClusterProfile, NAMESPACE/NAME, but those that belong to
// Kubernetes and its tools. It does not search for a profile: else a user who may create one in any
// namespace would decide which policies are for a cluster.
func profileLabels(ctx context.Context, c client.Reader, profile string) (map[string]string, error) {
	namespace, name, is := strings.Cut(profile, "/")
	if !is || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%q: want NAMESPACE/NAME", profile)
	}
	o, err := found(ctx, c, schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ClusterProfile"}, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, fmt.Errorf("there is no ClusterProfile %s that you may read", profile)
	}
	labels := maps.Clone(o.GetLabels())
	maps.DeleteFunc(labels, func(key, _ string) bool {
		domain, _, is := strings.Cut(key, "/")
		return is && slices.ContainsFunc([]string{"k8s.io", "x-k8s.io", "kubernetes.io", "nephele.io"}, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
	})
	if len(labels) == 0 {
		return nil, errors.New("ClusterProfile " + profile + " has no labels of its owner's")
	}
	return labels, nil
}
