package agentcmd

import (
	"context"
	"path/filepath"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	stats "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/capturing"
	"github.com/nephele-io/nephele/internal/agent/latency"
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

func (c *cluster) writeTraceflow(ctx context.Context, name string, change func(*v1beta1.Traceflow) bool) error {
	return writeStatus(ctx, c.antrea, "traceflows", name, &v1beta1.Traceflow{}, change)
}

// captures returns what follows the PacketCaptures of the cluster.
func (f *agentFlags) captures(c *cluster, log logr.Logger) *capturing.Captures {
	return capturing.New(capturing.Options{
		Node: f.kubeNode, Dir: filepath.Join(f.stateDir, "captures"), Write: c.writePacketCapture, Clock: clock.RealClock{}, Log: log.WithName("packetcapture"),
		PacketCaptures: c.Follow(v1alpha1.GroupVersion().WithResource("packetcaptures"), metav1.NamespaceAll, func(*metav1.ListOptions) {}),
		Open:           func() (capturing.Capture, error) { return kernel.OpenCapture() },
	})
}

// latency returns what measures how long packets take to the other Nodes.
func (f *agentFlags) latency(c *cluster, report func(context.Context, *stats.NodeLatencyStats) error, log logr.Logger) *latency.Monitor {
	every := func(*metav1.ListOptions) {}
	return latency.New(latency.Options{
		Node: f.kubeNode, Monitors: c.Follow(v1alpha1.GroupVersion().WithResource("nodelatencymonitors"), metav1.NamespaceAll, every),
		Nodes:  c.Follow(corev1.SchemeGroupVersion.WithResource("nodes"), metav1.NamespaceAll, every),
		Listen: latency.Listen, Report: report, Clock: clock.RealClock{}, Log: log.WithName("latency"),
	})
}

func (c *cluster) writePacketCapture(ctx context.Context, name string, change func(*v1alpha1.PacketCapture) bool) error {
	return writeStatus(ctx, c.antreaAlpha, "packetcaptures", name, &v1alpha1.PacketCapture{}, change)
}

// writeStatus changes the status of an object, as it is now; not if somebody else has changed it
// meanwhile.
func writeStatus[T runtime.Object](ctx context.Context, client *rest.RESTClient, resource, name string, of T, change func(T) bool) error {
	if err := client.Get().Resource(resource).Name(name).MaxRetries(0).Do(ctx).Into(of); err != nil {
		return err
	}
	if !change(of) {
		return nil
	}
	return client.Put().Resource(resource).Name(name).SubResource("status").Body(of).MaxRetries(0).Do(ctx).Error()
}
