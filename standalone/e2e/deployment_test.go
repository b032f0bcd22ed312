package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestDeploymentIsRestricted: the Pod passes the strictest of the Pod Security Standards, writes
// nowhere but where it must, and has limits.
func TestDeploymentIsRestricted(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{manifests, overlay} {
		var d appsv1.Deployment
		var p networkingv1.NetworkPolicy
		for _, o := range built(t, dir) {
			var err error
			switch o.GetKind() {
			case "Deployment":
				err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d)
			case "NetworkPolicy":
				err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		pod := d.Spec.Template
		checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
		if err != nil {
			t.Fatal(err)
		}
		level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
		if result := policy.AggregateCheckResults(checks.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec)); !result.Allowed {
			t.Errorf("%s: %s", dir, result.ForbiddenDetail())
		}
		c := pod.Spec.Containers[0]
		limit, request := c.Resources.Limits.Memory(), c.Resources.Requests.Memory()
		if s := c.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || limit.IsZero() || request.IsZero() || limit.Cmp(*request) < 0 {
			t.Errorf("%s: read-only %v, memory %s of %s", dir, s.ReadOnlyRootFilesystem, request, limit)
		}
		var soft int64
		for _, e := range c.Env {
			if e.Name == "GOMEMLIMIT" {
				if _, err := fmt.Sscanf(e.Value, "%dMiB", &soft); err != nil {
					t.Errorf("GOMEMLIMIT %s: %v", e.Value, err)
				}
			}
		}
		if soft <<= 20; soft < limit.Value()*3/4 || soft >= limit.Value() {
			t.Errorf("%s: GOMEMLIMIT is %d, the limit %d", dir, soft, limit.Value())
		}
		// The policy of the Pod names all its ports but that of health.
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err != nil || p.Namespace != d.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			t.Errorf("%s: the NetworkPolicy is not about the Deployment (%v)", dir, err)
		}
		open := map[string]int{}
		for _, rule := range p.Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) == 0 {
				t.Errorf("%s: a rule for everybody or for all ports: %v", dir, rule)
			}
			for _, port := range rule.Ports {
				open[port.Port.StrVal]++
			}
		}
		for _, port := range c.Ports {
			if (open[port.Name] == 1) == (port.Name == "health") {
				t.Errorf("%s: port %s is in %d rules", dir, port.Name, open[port.Name])
			}
		}
		for _, rule := range p.Spec.Egress {
			if len(rule.Ports) == 0 {
				t.Errorf("%s: it may go to all ports: %v", dir, rule)
			}
		}
		both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
		if len(open) != len(c.Ports)-1 || len(p.Spec.Egress) == 0 || !slices.Equal(p.Spec.PolicyTypes, both) {
			t.Errorf("%s: %v, %v", dir, open, p.Spec.PolicyTypes)
		}
		if narrowed := slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--secret-namespaces=") }); narrowed != (dir == overlay) {
			t.Errorf("%s: %v", dir, c.Args)
		}
	}
}
