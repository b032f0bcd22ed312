package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/nephele-io/nephele/internal/sim/estate"
)

// gathered is a collector of traces in this process.
type gathered struct {
	collectorv1.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []*tracev1.Span
}

// Export implements the collector's protocol.
func (g *gathered) Export(_ context.Context, r *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			g.spans = append(g.spans, scope.Spans...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// all are the spans so far.
func (g *gathered) all() []*tracev1.Span {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.spans)
}

func said(s *tracev1.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[a.Key] = a.Value.GetStringValue()
	}
	return out
}

// way is the names of a span and of those that it is within.
func way(s *tracev1.Span, byID map[string]*tracev1.Span) string {
	if s == nil {
		return "?"
	}
	if len(s.ParentSpanId) == 0 {
		return s.Name
	}
	return way(byID[string(s.ParentSpanId)], byID) + " > " + s.Name
}

// TestTraces: a policy that somebody makes has one trace, from when it is seen to every call that
// enforces it, with nothing secret in it. When the collector goes away, policies are enforced as
// before.
func TestTraces(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	g, server := &gathered{}, grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, g)
	go func() { _ = server.Serve(l) }() // it ends with Stop
	t.Cleanup(server.Stop)
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + l.Addr().String(), "OTEL_BSP_SCHEDULE_DELAY": "200"}
	im := importAccount(t, startCluster(&cluster{t: t, env: env}), hybridCloud)
	policies := decodePolicies(t, policiesYAML)
	create := func(i int) string {
		next := im.oracle.copy()
		next.policies = append(next.policies, policies[i])
		im.step("create "+policies[i].GetName(), next, func() { im.create(policies[i]) })
		return policies[i].GetName()
	}
	name := create(0)
	wanted := []string{"policy changed", "policy changed > compute", "policy changed > realize", "policy changed > realize > plan",
		"policy changed > realize > change", "policy changed > realize > call", "policy changed > realize > change > call"}
	eventually(t, "the trace of the policy", func(context.Context) (bool, string) {
		all := g.all()
		i := slices.IndexFunc(all, func(s *tracev1.Span) bool { return s.Name == "policy changed" && said(s)["name"] == name })
		if i < 0 {
			return false, fmt.Sprintf("none of %d spans begins it", len(all))
		}
		byID, ways := map[string]*tracev1.Span{}, map[string]int{}
		for _, s := range all {
			if string(s.TraceId) == string(all[i].TraceId) {
				byID[string(s.SpanId)] = s
			}
		}
		actions := map[string]int{}
		for _, s := range byID {
			ways[way(s, byID)]++
			actions[said(s)["action"]]++
		}
		for _, w := range wanted {
			if ways[w] == 0 {
				return false, fmt.Sprintf("no %s among %v", w, ways)
			}
		}
		for _, a := range []string{"CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "ModifyNetworkInterfaceAttribute", "CreateTags"} {
			if actions[a] == 0 {
				return false, fmt.Sprintf("no %s among %v", a, actions)
			}
		}
		return true, ""
	})
	roots := map[string]int{}
	for _, s := range g.all() {
		for _, a := range s.Attributes {
			if v := a.Value.GetStringValue(); strings.Contains(v, estate.DefaultSecret) || strings.Contains(v, estate.DefaultAccessKeyID) || len(v) > 128 {
				t.Errorf("%s says %s=%s", s.Name, a.Key, v)
			}
		}
		if len(s.ParentSpanId) == 0 {
			roots[s.Name]++
		}
	}
	if roots["call"] > 0 {
		t.Errorf("calls that nothing traced has brought about are traced: %v", roots)
	}
	server.Stop()
	create(1)
	eventually(t, "the log says that nobody takes the traces", func(context.Context) (bool, string) {
		return strings.Contains(im.c.log(t), "Traces are not delivered"), ""
	})
}
