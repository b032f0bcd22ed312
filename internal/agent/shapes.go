package agent

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nephele-io/nephele/internal/agent/network"
)

// The annotations by which a Pod bounds what it receives and sends, in bits a second.
const (
	ingressBandwidth = "kubernetes.io/ingress-bandwidth"
	egressBandwidth  = "kubernetes.io/egress-bandwidth"
)

// shapes are the bounds of Pods by NAMESPACE/NAME, and what is wrong with those that they want; nil
// while it is not known which Pods there are.
func (p *Pods) shapes() (out map[string]network.Shape, problems []string) {
	if p.pods == nil || !p.runPods.HasSynced() {
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
		for annotation, to := range map[string]*network.Rate{ingressBandwidth: &s.Ingress, egressBandwidth: &s.Egress} {
			text, has := pod.Annotations[annotation]
			if !has {
				continue
			}
			rate, err := parseRate(text)
			if err != nil {
				problems = append(problems, fmt.Sprintf("Pod %s: annotation %s: %v", name, annotation, err))
				continue
			}
			*to = rate
		}
		if s != (network.Shape{}) {
			out[name] = s
		}
	}
	slices.Sort(problems)
	return out, problems
}

// parseRate reads what an annotation wants.
func parseRate(text string) (network.Rate, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() < int64(network.MinRate) || q.Value() > int64(network.MaxRate) {
		return 0, fmt.Errorf("%.40q: want bits a second, from 1k to 1P", text)
	}
	return network.Rate(q.Value()), nil
}
