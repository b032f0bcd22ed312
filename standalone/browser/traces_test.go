package browser

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// playTraces shows a packet that two Nodes have traced, traces one from a Pod that is not there,
// and deletes that; a console that only reads does neither.
func (p *place) playTraces(t *testing.T) {
	done := &v1beta1.Traceflow{ObjectMeta: metav1.ObjectMeta{Name: "done"}, Spec: v1beta1.TraceflowSpec{
		Source: v1beta1.TraceflowSource{Namespace: "shop", Pod: "gone"}, Destination: v1beta1.TraceflowDestination{IP: "10.9.9.9"}}}
	must(t, p.client.Create(t.Context(), done))
	p.wait("the controller has ended it", func(ctx context.Context) (bool, string) {
		err := p.client.Get(ctx, client.ObjectKeyFromObject(done), done)
		return err == nil && done.Status.Phase == v1beta1.TraceflowFailed, fmt.Sprint(done.Status, err)
	})
	done.Status.Phase, done.Status.Reason = v1beta1.TraceflowSucceeded, ""
	done.Status.Traced = &v1beta1.TraceflowTraced{Node: "n0"}
	done.Status.Results = []v1beta1.TraceflowNodeResult{
		{Node: "n1", Role: "receiver", Observations: []v1beta1.TraceflowObservation{{Component: v1beta1.ComponentNetworkPolicy, ComponentInfo: hostile,
			Action: v1beta1.ActionDropped, NetworkPolicy: "AntreaNetworkPolicy:shop/no", NetworkPolicyRule: "r"}}},
		{Node: "n0", Role: "sender", Observations: []v1beta1.TraceflowObservation{{Component: v1beta1.ComponentForwarding, ComponentInfo: "Output",
			Action: v1beta1.ActionForwarded, TunnelDstIP: "192.168.1.2"}}},
	}
	must(t, p.client.Status().Update(t.Context(), done))
	p.play(t, "traces", p.console(t, "", true), nil)
	t.Run("only read", func(t *testing.T) {
		onlyLong(t, "an auditor finds no button; TestWhatIsPassedOn (internal/console) passes no change on")
		p.play(t, "tracesRead", p.console(t, "", false), nil)
	})
	must(t, p.client.Delete(t.Context(), done))
}
