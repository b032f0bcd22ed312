package control

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Trim takes away what policies do not depend on and what would be most of the memory of a large cluster: from every object who
// manages its fields, from Nodes their images, and from Pods all but labels, owners, host, addresses, named ports and phase. It
// is a transformation for informers (cache.Options.DefaultTransform); Pods that it has trimmed must not be written back.
func Trim(object any) (any, error) {
	if o, ok := object.(client.Object); ok && len(o.GetManagedFields()) > 0 {
		o.SetManagedFields(nil)
	}
	switch o := object.(type) {
	case *corev1.Pod:
		trimPod(o)
	case *corev1.Node:
		o.Status.Images = nil
	}
	return object, nil
}

func trimPod(p *corev1.Pod) {
	p.Annotations, p.Finalizers = nil, nil
	p.Spec = corev1.PodSpec{
		NodeName: p.Spec.NodeName, ServiceAccountName: p.Spec.ServiceAccountName, HostNetwork: p.Spec.HostNetwork,
		Containers: trimContainers(p.Spec.Containers),
	}
	p.Status = corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs}
}

// trimContainers keeps the containers that have named ports, and of them these.
func trimContainers(in []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for i := range in {
		var named []corev1.ContainerPort
		for _, p := range in[i].Ports {
			if p.Name != "" {
				named = append(named, p)
			}
		}
		if named != nil {
			out = append(out, corev1.Container{Name: in[i].Name, Ports: named})
		}
	}
	return out
}
