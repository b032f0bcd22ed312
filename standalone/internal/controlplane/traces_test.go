package controlplane

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/fstest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// TestTracesOfNodes: an agent tells what became of a packet on its own Node, once, and changes
// nothing else of a Traceflow; a captured packet comes from the Node that captures.
func TestTracesOfNodes(t *testing.T) {
	admin := guarded(t)
	manifest, err := os.ReadFile("../../../config/nodes/traces.yaml")
	mustNot(t, err)
	mustNot(t, server(t).Apply(t.Context(), fstest.MapFS{"traces.yaml": {Data: manifest}}))
	const user = "system:serviceaccount:kube-system:tracing-agent"
	give(t, user, "", "crd.antrea.io", "traceflows", "get", "list", "watch")
	give(t, user, "", "crd.antrea.io", "traceflows/status", "update")
	as := func(node string) client.Client {
		return acting(t, func(c *rest.Config) {
			actingAs(c, user)
			if node != "" {
				c.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
			}
		})
	}
	o := &v1beta1.Traceflow{ObjectMeta: metav1.ObjectMeta{Name: "traced"}, Spec: v1beta1.TraceflowSpec{LiveTraffic: true, Source: v1beta1.TraceflowSource{Namespace: "shop", Pod: "web"}}}
	eventually(t, "a Traceflow is made", func(ctx context.Context) error { return admin.Create(ctx, o) })
	t.Cleanup(func() { _ = admin.Delete(context.Background(), o) })
	o.Status = v1beta1.TraceflowStatus{Phase: v1beta1.TraceflowRunning, DataplaneTag: 7, Traced: &v1beta1.TraceflowTraced{Node: "own", SourceIP: "10.244.0.2"}}
	mustNot(t, admin.Status().Update(t.Context(), o))
	result := func(node string) v1beta1.TraceflowNodeResult {
		return v1beta1.TraceflowNodeResult{Node: node, Observations: []v1beta1.TraceflowObservation{{Action: v1beta1.ActionDropped}}}
	}
	write := func(c client.Client, change func(s *v1beta1.TraceflowStatus)) func(context.Context) error {
		return func(ctx context.Context) error {
			var now v1beta1.Traceflow
			if err := admin.Get(ctx, client.ObjectKey{Name: "traced"}, &now); err != nil {
				return err
			}
			change(&now.Status)
			return c.Status().Update(ctx, &now)
		}
	}
	tells := func(c client.Client, node string) func(context.Context) error {
		return write(c, func(s *v1beta1.TraceflowStatus) { s.Results = append(s.Results, result(node)) })
	}
	own, other := as("own"), as("other")
	const policy, once, nothing = "nephele-traces", "on its own Node, once", "and nothing else"
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		var now v1beta1.Traceflow
		if err := admin.Get(ctx, client.ObjectKey{Name: "traced"}, &now); err != nil {
			return err
		}
		now.Status.Results = append(now.Status.Results, result("other"))
		dry := &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}}
		if err := own.Status().Update(ctx, &now, dry); !refusedBy(err, policy) {
			return fmt.Errorf("for another Node: %w", err)
		}
		return nil
	})
	mustRefuse(t, "a result by nobody's token", policy, tells(as(""), "own"), "bound to a Node")
	mustRefuse(t, "a result of another Node", policy, tells(own, "other"), once)
	mustRefuse(t, "a packet that another Node captured", policy, write(other, func(s *v1beta1.TraceflowStatus) {
		s.Results, s.CapturedPacket = append(s.Results, result("other")), &v1beta1.TraceflowPacket{SrcIP: "10.0.0.1"}
	}), "the Node that it was captured on")
	for what, change := range map[string]func(s *v1beta1.TraceflowStatus){
		"phase": func(s *v1beta1.TraceflowStatus) { s.Phase = v1beta1.TraceflowFailed }, "tag": func(s *v1beta1.TraceflowStatus) { s.DataplaneTag = 11 },
		"what is traced": func(s *v1beta1.TraceflowStatus) { s.Traced.SourceIP = "10.244.0.3" }, "the Node": func(s *v1beta1.TraceflowStatus) { s.Traced = nil },
		"reason": func(s *v1beta1.TraceflowStatus) { s.Reason = "r" },
	} {
		mustRefuse(t, what, policy, write(own, func(s *v1beta1.TraceflowStatus) { s.Results = append(s.Results, result("own")); change(s) }), nothing)
	}
	mustDo(t, "the result of the own Node, with the packet", write(own, func(s *v1beta1.TraceflowStatus) {
		s.Results, s.CapturedPacket = append(s.Results, result("own")), &v1beta1.TraceflowPacket{SrcIP: "10.244.0.2"}
	}))
	mustDo(t, "the result of the other Node", tells(other, "other"))
	mustRefuse(t, "another result of the own Node", policy, tells(own, "own"), once)
	mustRefuse(t, "the result of the other Node, changed", policy, write(own, func(s *v1beta1.TraceflowStatus) {
		s.Results[1].Observations[0].Action = v1beta1.ActionDelivered
	}), once)
	mustRefuse(t, "that a result goes", policy, write(own, func(s *v1beta1.TraceflowStatus) { s.Results = s.Results[:1] }), once)
	mustDo(t, "the end, by a user with the right to delete", write(admin, func(s *v1beta1.TraceflowStatus) { s.Phase = v1beta1.TraceflowSucceeded }))
}

// TestCapturesOfNodes: an agent reports of what is assigned to its own Node, and assigns nothing.
func TestCapturesOfNodes(t *testing.T) {
	guarded(t)
	manifest, err := os.ReadFile("../../../config/nodes/traces.yaml")
	mustNot(t, err)
	mustNot(t, server(t).Apply(t.Context(), fstest.MapFS{"traces.yaml": {Data: manifest}}))
	scheme := runtime.NewScheme()
	mustNot(t, v1alpha1.AddToScheme(scheme))
	const user = "system:serviceaccount:kube-system:capturing-agent"
	give(t, user, "", "crd.antrea.io", "packetcaptures/status", "update")
	as := func(node string) client.Client {
		cfg := server(t).RestConfig()
		if node != "" {
			actingAs(cfg, user)
			cfg.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		c, err := client.New(cfg, client.Options{Scheme: scheme})
		mustNot(t, err)
		return c
	}
	all := as("")
	o := &v1alpha1.PacketCapture{ObjectMeta: metav1.ObjectMeta{Name: "captured"}, Spec: v1alpha1.PacketCaptureSpec{Source: v1alpha1.CaptureEnd{Pod: &v1alpha1.CapturePod{Name: "web"}}}}
	o.Spec.CaptureConfig.FirstN.Number = 5
	mustNot(t, all.Create(t.Context(), o))
	t.Cleanup(func() { _ = all.Delete(context.Background(), o) })
	write := func(c client.Client, change func(s *v1alpha1.PacketCaptureStatus)) func(context.Context) error {
		return func(ctx context.Context) error {
			var now v1alpha1.PacketCapture
			if err := all.Get(ctx, client.ObjectKey{Name: "captured"}, &now); err != nil {
				return err
			}
			change(&now.Status)
			return c.Status().Update(ctx, &now)
		}
	}
	assigns := func(node string) func(*v1alpha1.PacketCaptureStatus) {
		return func(s *v1alpha1.PacketCaptureStatus) {
			s.Assigned = &v1alpha1.CaptureAssigned{Node: node, Since: metav1.Now()}
		}
	}
	const policy, own = "nephele-captures", "assigned to its own Node"
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		now := o.DeepCopy()
		assigns("own")(&now.Status)
		dry := &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}}
		if err := as("own").Status().Update(ctx, now, dry); !refusedBy(err, policy) {
			return fmt.Errorf("an agent assigns: %w", err)
		}
		return nil
	})
	mustRefuse(t, "that an agent assigns", policy, write(as("own"), assigns("own")), own)
	mustDo(t, "that the controller assigns", write(all, assigns("own")))
	count := func(s *v1alpha1.PacketCaptureStatus) { s.NumberCaptured++ }
	mustRefuse(t, "a report by another Node", policy, write(as("other"), count), own)
	mustRefuse(t, "another source", policy, write(as("own"), func(s *v1alpha1.PacketCaptureStatus) { s.Assigned.SourceIP = "10.0.0.1" }), own)
	mustDo(t, "a report by the Node", write(as("own"), count))
}
