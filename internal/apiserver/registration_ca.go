package apiserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CAConfigMap and CAKey are where Antrea Agents look for the CA bundle of the server that they
// connect to, in the Namespace of its Service. They watch it, so that a new bundle reaches them.
const (
	CAConfigMap = "antrea-ca"
	CAKey       = "ca.crt"
)

// ensureCA keeps the ConfigMap with the CA bundle.
func (r *Registration) ensureCA(ctx context.Context, bundle []byte) error {
	want := &corev1.ConfigMap{
		ObjectMeta: r.caMeta(),
		Data:       map[string]string{CAKey: string(bundle)},
	}
	present := &corev1.ConfigMap{}
	return r.keep(ctx, want, present, func() bool {
		same := present.Data[CAKey] == want.Data[CAKey]
		if present.Data == nil {
			present.Data = map[string]string{}
		}
		present.Data[CAKey] = want.Data[CAKey]
		return same
	})
}

func (r *Registration) caMeta() metav1.ObjectMeta {
	return r.meta(types.NamespacedName{Namespace: r.Service.Namespace, Name: CAConfigMap})
}
