package services

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// FrontendsOf says where a Service is reached, as ADDRESS/PROTOCOL/PORT.
func FrontendsOf(s *corev1.Service, node []netip.Addr) []string {
	var out []string
	for _, f := range frontendsOf(s, node) {
		out = append(out, fmt.Sprintf("%s/%d/%d", f.Address, f.Protocol, f.Port))
	}
	return out
}
