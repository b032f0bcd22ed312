package clouds

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClusterID is the identity under which we own objects in the cloud: the uid of the namespace that
// every cluster has and none loses.
func ClusterID(ctx context.Context, r client.Reader) (string, error) {
	var ns corev1.Namespace
	if err := r.Get(ctx, client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
		return "", fmt.Errorf("read namespace kube-system, whose uid identifies the cluster: %w", err)
	}
	return string(ns.UID), nil
}
