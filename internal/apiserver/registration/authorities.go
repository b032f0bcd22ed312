package registration

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// CAConfigMap and CAKey are where Antrea Agents look for the CA bundle of the server that they
// connect to, in kube-system. They watch it, so that a new bundle reaches them.
const (
	CAConfigMap = "antrea-ca"
	CAKey       = "ca.crt"
)

// PublishAuthorities keeps the ConfigMap with the CA bundle, and the authorities for hosts and of
// the API server.
func (r *Registration) PublishAuthorities(ctx context.Context, bundle []byte) error {
	want := &corev1.ConfigMap{
		ObjectMeta: r.caMeta(),
		Data:       map[string]string{CAKey: string(bundle)},
	}
	if r.Hosts != nil {
		want.Data[enroll.AuthorityKey] = string(r.Hosts.Bundle())
		if turns := r.Hosts.Turns(); !turns.IsZero() {
			want.Data[enroll.TurnsKey] = turns.UTC().Format(time.RFC3339)
		}
	}
	if known, err := r.clusterAuthorities(ctx); err != nil {
		return err
	} else if known != "" {
		want.Data[credential.ClusterAuthoritiesKey] = known
	}
	if r.HostServer != "" {
		want.Data[enroll.ServerKey] = r.HostServer
	}
	present := &corev1.ConfigMap{}
	return r.keep(ctx, want, present, func() bool {
		_, turns := want.Data[enroll.TurnsKey]
		_, turned := present.Data[enroll.TurnsKey]
		same := turns || !turned
		if !same {
			delete(present.Data, enroll.TurnsKey)
		}
		for key, value := range want.Data {
			same = same && present.Data[key] == value
		}
		if present.Data == nil {
			present.Data = map[string]string{}
		}
		maps.Copy(present.Data, want.Data)
		return same
	})
}

// rootConfigMap is where every cluster publishes by what its API server is known.
const rootConfigMap = "kube-root-ca.crt"

// clusterAuthorities are the authorities by which the API server is known, for hosts that enrolled
// with it; empty where that is not known, or not ours to read.
func (r *Registration) clusterAuthorities(ctx context.Context) (string, error) {
	var root corev1.ConfigMap
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.caMeta().Namespace, Name: rootConfigMap}, &root)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("by what the API server is known: %w", err)
	}
	return root.Data["ca.crt"], nil
}

func (r *Registration) caMeta() metav1.ObjectMeta {
	return r.meta(types.NamespacedName{Namespace: cmp.Or(r.Authority, r.Service.Namespace), Name: CAConfigMap})
}
