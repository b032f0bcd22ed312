package services_test

import (
	"net/netip"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nephele-io/nephele/internal/agent/services"
)

// TestServicesAreReached says where Services of all kinds are reached.
func TestServicesAreReached(t *testing.T) {
	proxy := corev1.LoadBalancerIPModeProxy
	node := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	for name, c := range map[string]struct {
		service corev1.Service
		want    string
	}{
		"cluster":  {corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7", "fd00::7"}, Ports: []corev1.ServicePort{{Port: 80}, {Port: 53, Protocol: corev1.ProtocolUDP}}}}, "10.96.0.7/6/80 10.96.0.7/17/53 fd00::7/6/80 fd00::7/17/53"},
		"headless": {corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}}, ""},
		"a name":   {corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com", Ports: []corev1.ServicePort{{Port: 80}}}}, ""},
		"balancer": {corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.8", ExternalIPs: []string{"198.51.100.1"}, Ports: []corev1.ServicePort{{Port: 443, NodePort: 30443, Protocol: corev1.ProtocolSCTP}}},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}, {IP: "203.0.113.10", IPMode: &proxy}, {Hostname: "lb.example.com"}}}}},
			"10.96.0.8/132/443 192.0.2.1/132/30443 198.51.100.1/132/443 203.0.113.9/132/443"},
		"odd": {corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "nonsense", Ports: []corev1.ServicePort{{Port: 80, Protocol: "GRE"}}}}, ""},
	} {
		if d := gocmp.Diff(c.want, strings.Join(services.FrontendsOf(&c.service, node), " ")); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}
