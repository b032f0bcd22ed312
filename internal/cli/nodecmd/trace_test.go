package nodecmd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// traced runs the command where Traceflows end at once with a status.
func traced(t *testing.T, status v1beta1.TraceflowStatus, args ...string) (out string, asked v1beta1.TraceflowSpec, left int, err error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		f := o.(*v1beta1.Traceflow)
		asked, f.Status = f.Spec, status
		return c.Create(ctx, o, opts...)
	}}).Build()
	cmd := TraceCommand(Needs{Register: func(*pflag.FlagSet) {}, Client: func() (client.Client, error) { return c, nil }})
	var b bytes.Buffer
	cmd.SetOut(&b)
	cmd.SetErr(&b)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	var list v1beta1.TraceflowList
	if failed := c.List(t.Context(), &list); failed != nil {
		t.Fatal(failed)
	}
	return b.String(), asked, len(list.Items), err
}

func TestTraceflow(t *testing.T) {
	status := v1beta1.TraceflowStatus{Phase: v1beta1.TraceflowSucceeded, Traced: &v1beta1.TraceflowTraced{Node: "n0", SourceIP: "10.244.0.2", DestinationIP: "10.244.1.2"},
		Results: []v1beta1.TraceflowNodeResult{
			{Node: "n1", Role: "receiver", Observations: []v1beta1.TraceflowObservation{{Component: v1beta1.ComponentNetworkPolicy, ComponentInfo: "IngressRule", Action: v1beta1.ActionDropped,
				NetworkPolicy: "AntreaNetworkPolicy:shop/no", NetworkPolicyRule: "r\x1b[31m"}}},
			{Node: "n0", Role: "sender", Observations: []v1beta1.TraceflowObservation{{Component: v1beta1.ComponentForwarding, ComponentInfo: "Output", Action: v1beta1.ActionForwarded, TunnelDstIP: "192.168.1.2"}}},
		}}
	out, asked, left, err := traced(t, status, "--from", "shop/web", "--to", "shop/db", "--protocol", "tcp", "--port", "5432")
	want := "10.244.0.2 -> 10.244.1.2\nNode n0 (sender)\n  Forwarding (Output) Forwarded to Node 192.168.1.2\nNode n1 (receiver)\n  NetworkPolicy (IngressRule) Dropped by AntreaNetworkPolicy:shop/no rule r"
	if !errors.Is(err, terminal.ErrNo) || !strings.HasPrefix(out, want) || strings.Contains(out, "\x1b") || left != 0 {
		t.Errorf("%v, %d left:\n%s\nwant\n%s", err, left, out, want)
	}
	if asked.Source.Pod != "web" || asked.Destination.Namespace != "shop" || asked.Packet.TransportHeader.TCP == nil || asked.Packet.TransportHeader.TCP.DstPort != 5432 || asked.Timeout != 20 {
		t.Errorf("%+v", asked)
	}
	status.Results[0].Observations[0].Action = v1beta1.ActionDelivered
	if out, _, left, err = traced(t, status, "--from", "192.0.2.1", "--to", "shop/db", "--live", "--keep", "-o", "json"); err != nil || left != 1 || !strings.Contains(out, `"phase": "Succeeded"`) {
		t.Errorf("%v, %d left: %s", err, left, out)
	}
	for _, c := range []struct{ args, want string }{
		{"--to shop/db", "--from"}, {"--from shop/web", "--to"}, {"--from web --to shop/db", "NAMESPACE/NAME"}, {"--from 192.0.2.1 --to shop/db", "--from"},
		{"--from 192.0.2.1 --to 192.0.2.2 --live", "want a Pod"}, {"--from shop/web --to svc/db", "svc/NAMESPACE/NAME"}, {"--from shop/web --to shop/db --protocol sctp", "--protocol"},
		{"--from shop/web --to shop/db --port 7", "--protocol"}, {"--from shop/web --to shop/db --protocol tcp", "--port"}, {"--from shop/web --to shop/db --timeout 301", "--timeout"},
		{"--from shop/web --to shop/db --dropped-only", "--live"}, {"--from shop/web --to shop/db -o yaml", "--output"},
	} {
		if _, _, _, err := traced(t, status, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}
