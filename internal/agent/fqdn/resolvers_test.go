package fqdn_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/nephele-io/nephele/internal/agent/cluster/clustertest"
	"github.com/nephele-io/nephele/internal/agent/fqdn"
)

// TestClusterResolvers: the resolvers behind the DNS Service are known, and no others.
func TestClusterResolvers(t *testing.T) {
	endpoints := func(name, service string, kind discoveryv1.AddressType, addresses ...string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			AddressType: kind, Endpoints: []discoveryv1.Endpoint{{Addresses: addresses}}}
	}
	client := fake.NewClientset(
		endpoints("dns-1", "kube-dns", discoveryv1.AddressTypeIPv4, "10.0.0.9", "10.0.0.8", "nonsense"), endpoints("dns-2", "kube-dns", discoveryv1.AddressTypeIPv6, "fd00::1"),
		endpoints("dns-3", "kube-dns", discoveryv1.AddressTypeFQDN, "192.0.2.1"), endpoints("web", "web", discoveryv1.AddressTypeIPv4, "10.0.0.7"), &corev1.Node{},
	)
	r := fqdn.FollowResolvers(clustertest.Cluster{Clientset: client}, "kube-system", "kube-dns")
	if found, err := r.Addresses(); err == nil || len(found) > 0 {
		t.Errorf("known before it runs: %v, %v", found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	defer func() { cancel(); <-done }()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		found, err := r.Addresses()
		if err == nil && fmt.Sprint(found) == "[10.0.0.8 10.0.0.9 fd00::1]" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, %v", found, err)
		}
	}
}
