package localpods

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/proxy"
)

// Former returns the Pods that an agent has kept, which is in the order of their age, as Source
// would give them, without the ones that had not started. It is never nil.
func Former(kept []nft.Pod, attachments []cni.Attachment, ports []proxy.HostPort) []*corev1.Pod {
	out := []*corev1.Pod{}
	for n, x := range kept {
		if x.Waiting {
			continue
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: x.Namespace, Name: x.Name, CreationTimestamp: metav1.Unix(int64(n), 0)}}
		for i := range attachments {
			if a := &attachments[i]; a.Namespace == x.Namespace && a.Name == x.Name {
				p.UID = types.UID(a.UID)
			}
		}
		for _, a := range x.Addresses {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a.String()})
		}
		for _, h := range ports {
			if len(x.Addresses) == 0 || h.To.Addr() != x.Addresses[0] {
				continue
			}
			port := corev1.ContainerPort{Protocol: h.Protocol, HostPort: int32(h.Port), ContainerPort: int32(h.To.Port())}
			if h.Address.IsValid() {
				port.HostIP = h.Address.String()
			}
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Ports: []corev1.ContainerPort{port}})
		}
		out = append(out, p)
	}
	return out
}
