package apiserver

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/limits"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
)

// latencies serves what Nodes measure of the way to other Nodes. A report takes the place of the
// one before.
type latencies struct {
	*storage.Readings
	book *stats.Book
	gate gate
}

var (
	_ rest.Creater         = (*latencies)(nil)
	_ rest.GracefulDeleter = (*latencies)(nil)
)

func newLatencies(b *stats.Book, g gate) rest.Storage {
	return &latencies{&storage.Readings{
		Resource: storage.New(statistic("nodelatencystats"), "nodelatencystats", false, func() runtime.Object { return &v1alpha1.NodeLatencyStats{} }),
		Lists:    func() runtime.Object { return &v1alpha1.NodeLatencyStatsList{} },
		Items: func(string) []runtime.Object {
			var out []runtime.Object
			for _, s := range b.Latencies() {
				out = append(out, &s)
			}
			return out
		},
		Object: func(_, name string) (runtime.Object, bool) { return b.Latency(name) },
		Table: storage.Tabler([]storage.Column{
			{Name: "Node Name", Type: "string", Format: "name", Description: "The Node that measured."},
			{Name: "Num Latency Entries", Type: "integer", Format: "int64", Description: "Number of Nodes to which the latency is known."},
			{Name: "Avg Latency", Type: "string", Description: "Average over all addresses."},
			{Name: "Max Latency", Type: "string", Description: "The largest one."},
		}, latencyCells),
	}, b, g}
}

func latencyCells(o runtime.Object) []any {
	s := o.(*v1alpha1.NodeLatencyStats)
	var sum, largest, n int64
	for _, peer := range s.PeerNodeLatencyStats {
		for _, t := range peer.TargetIPLatencyStats {
			n++
			sum += t.LastMeasuredRTTNanoseconds
			largest = max(largest, t.LastMeasuredRTTNanoseconds)
		}
	}
	return []any{s.Name, int64(len(s.PeerNodeLatencyStats)), time.Duration(sum / max(n, 1)).String(), time.Duration(largest).String()}
}

// Create implements rest.Creater.
func (l *latencies) Create(ctx context.Context, object runtime.Object, _ rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	s, ok := object.(*v1alpha1.NodeLatencyStats)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a NodeLatencyStats", object))
	}
	if s.Name == "" {
		return nil, apierrors.NewBadRequest("metadata.name is empty, want the name of the Node")
	}
	if err := l.gate.allow(ctx, l.Group, s.Name, s.Name); err != nil {
		return nil, err
	}
	if dryRun(options) {
		return s, nil
	}
	if err := l.book.PutLatency(s); err != nil {
		return nil, apierrors.NewTooManyRequests(err.Error(), int(limits.Retry/time.Second))
	}
	return s, nil
}

// Delete implements rest.GracefulDeleter.
func (l *latencies) Delete(ctx context.Context, name string, _ rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if err := l.gate.allow(ctx, l.Group, name, name); err != nil {
		return nil, false, err
	}
	s, ok := l.book.Latency(name)
	if !ok {
		return nil, false, apierrors.NewNotFound(l.Group, name)
	}
	if options == nil || len(options.DryRun) == 0 {
		l.book.ForgetLatency(name)
	}
	return s, true, nil
}
