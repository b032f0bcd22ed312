package pods

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/localpods"
	"github.com/nephele-io/nephele/internal/agent/network"
)

// Shapes are the bounds of Pods by NAMESPACE/NAME, and what is wrong with those that they want; nil
// while it is not known which Pods there are.
func (p *Pods) Shapes() (out map[string]network.Shape, problems []string) {
	if p.pods.run == nil || !p.pods.run.HasSynced() {
		return nil, nil
	}
	out = map[string]network.Shape{}
	for _, o := range p.pods.List() {
		pod, ok := o.(*corev1.Pod)
		if !ok || len(pod.Annotations) == 0 || pod.Spec.HostNetwork {
			continue
		}
		name := pod.Namespace + "/" + pod.Name
		var s network.Shape
		for annotation, to := range map[string]*network.Rate{analysis.AnnotationIngressBandwidth: &s.Ingress, analysis.AnnotationEgressBandwidth: &s.Egress} {
			text, has := pod.Annotations[annotation]
			if !has {
				continue
			}
			rate, err := localpods.ParseRate(text, int64(network.MinRate), int64(network.MaxRate))
			if err != nil {
				problems = append(problems, fmt.Sprintf("Pod %s: annotation %s: %v", name, annotation, err))
				continue
			}
			*to = network.Rate(rate)
		}
		if s != (network.Shape{}) {
			out[name] = s
		}
	}
	slices.Sort(problems)
	return out, problems
}
