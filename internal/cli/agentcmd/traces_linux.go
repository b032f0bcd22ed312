package agentcmd

import (
	"context"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/tracing"
)

// traces returns what follows the Traceflows of the cluster.
func (f *agentFlags) traces(c *cluster, a *agent.Agent, log logr.Logger) *tracing.Traces {
	return tracing.New(tracing.Options{
		Node: f.kubeNode, Write: c.writeTraceflow, Place: a, OfPod: kernel.IsOfPod, Clock: clock.RealClock{}, Log: log.WithName("traceflow"),
		Traceflows: c.Follow(v1beta1.GroupVersion().WithResource("traceflows"), metav1.NamespaceAll, func(*metav1.ListOptions) {}),
		Trace:      func() (tracing.Tracer, error) { return kernel.OpenTracer() }, Inject: func() (tracing.Injector, error) { return kernel.OpenInjector() },
	})
}

// writeTraceflow changes the status of a Traceflow, as it is now; not if somebody else has changed
// it meanwhile.
func (c *cluster) writeTraceflow(ctx context.Context, name string, change func(*v1beta1.Traceflow) bool) error {
	of := &v1beta1.Traceflow{}
	if err := c.antrea.Get().Resource("traceflows").Name(name).MaxRetries(0).Do(ctx).Into(of); err != nil {
		return err
	}
	if !change(of) {
		return nil
	}
	return c.antrea.Put().Resource("traceflows").Name(name).SubResource("status").Body(of).MaxRetries(0).Do(ctx).Error()
}
