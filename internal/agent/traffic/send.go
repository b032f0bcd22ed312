package traffic

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// mostPatience is how many intervals go by at most before it is tried again to send what waits,
// where that fails again and again: the controller may be one that takes no such reports.
const mostPatience = 32

// Run sends what was recorded until ctx ends. What cannot be sent waits, and then the oldest is
// forgotten and counted. Accounting says whether the kernel counts packets.
func (r *Recorder) Run(ctx context.Context, accounting func() bool, send func(context.Context, *analysis.TrafficReport) error) {
	tick := r.clock.NewTicker(interval)
	defer tick.Stop()
	for wait, patience := 0, 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
		r.cut(!accounting())
		if wait--; wait > 0 {
			continue
		}
		if wait, patience = 0, min(2*patience, mostPatience); r.flush(ctx, send) {
			patience = 1
		} else {
			wait = patience
		}
	}
}

// flush sends what waits, the oldest first, until that fails. It reports whether all is sent.
func (r *Recorder) flush(ctx context.Context, send func(context.Context, *analysis.TrafficReport) error) bool {
	for {
		report := r.next()
		if report == nil {
			return true
		}
		report.Spec.Sent = metav1.NewMicroTime(r.clock.Now())
		err := send(ctx, report)
		r.mu.Lock()
		if r.stats.Error = ""; err != nil {
			r.stats.Error = err.Error()
		}
		if err == nil && len(r.waiting) > 0 && r.waiting[0] == report {
			r.waiting[0] = nil
			r.waiting = r.waiting[1:]
		}
		r.mu.Unlock()
		if err != nil {
			return false
		}
	}
}

func (r *Recorder) next() *analysis.TrafficReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return nil
	}
	return r.waiting[0]
}
