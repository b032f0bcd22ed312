package enforcer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// A report that failed is repeated after retryFirst, then twice as long each time, up to retryMost.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
)

// ReporterOptions are what a Reporter needs. Client and Clock are required.
type ReporterOptions struct {
	Client *Client
	Clock  clock.Clock
	// Random is as in Follower.
	Random func() float64
	// Metrics may be nil.
	Metrics *Metrics
	Log     logr.Logger
}

// Reporter brings reports to a server without making anybody wait for it. Of one policy and key it
// keeps the newest only.
type Reporter struct {
	ReporterOptions
	wake chan struct{}

	mu sync.Mutex
	// due holds the reports in the order in which they came, by what they are about.
	due   map[subject]*v1beta2.NetworkPolicyStatus
	order []subject
}

// subject is what a report is about.
type subject struct{ policy, key string }

// NewReporter returns a Reporter that posts nothing before Start.
func NewReporter(o ReporterOptions) *Reporter {
	if o.Random == nil {
		o.Random = func() float64 { return 0 }
	}
	return &Reporter{ReporterOptions: o, wake: make(chan struct{}, 1), due: map[subject]*v1beta2.NetworkPolicyStatus{}}
}

// Report takes the status of one policy by one enforcer. It fails only if that is not what it is
// given.
func (r *Reporter) Report(_ context.Context, s *v1beta2.NetworkPolicyStatus) error {
	if s.Name == "" || len(s.Nodes) != 1 {
		return errors.New("report: want the uid of the policy as metadata.name, and one entry in nodes")
	}
	r.keep(subject{s.Name, s.Nodes[0].NodeName}, s, true)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return nil
}

// keep queues a report. An older one, unlike a newer one, does not take the place of what has come
// meanwhile.
func (r *Reporter) keep(about subject, s *v1beta2.NetworkPolicyStatus, newer bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, queued := r.due[about]; !queued {
		r.order = append(r.order, about)
	} else if !newer {
		return
	}
	r.due[about] = s
}

// take empties the queue.
func (r *Reporter) take() (map[subject]*v1beta2.NetworkPolicyStatus, []subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	due, order := r.due, r.order
	r.due, r.order = map[subject]*v1beta2.NetworkPolicyStatus{}, nil
	return due, order
}

// Start posts reports until ctx ends. It is a manager.Runnable.
func (r *Reporter) Start(ctx context.Context) error {
	pause, told := retryFirst, ""
	var again <-chan time.Time
	wake := r.wake
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-again:
		}
		err := r.post(ctx)
		if err == nil || ctx.Err() != nil {
			pause, told, again, wake = retryFirst, "", nil, r.wake
			continue
		}
		if text := err.Error(); text != told {
			r.Log.Info("Reporting the status of policies failed, will be repeated", "reason", text)
			told = text
		}
		// Reports that come meanwhile wait as well: the server is to be left alone.
		again, wake = r.Clock.After(pause+time.Duration(r.Random()*spread*float64(pause))), nil
		pause = min(2*pause, retryMost)
	}
}

// post sends everything that is due. It returns the first failure that is worth a repetition; what
// is left stays due.
func (r *Reporter) post(ctx context.Context) error {
	due, order := r.take()
	var failed error
	for _, about := range order {
		s := due[about]
		if unreachable(failed) {
			r.keep(about, s, false)
			continue
		}
		posted, err := r.Client.report(ctx, s)
		switch {
		case err == nil && !posted:
		case err == nil:
			r.Metrics.report(reportTaken)
		case apierrors.IsNotFound(err): // it has moved on, and the watch will tell
			r.Metrics.report(reportRefused)
			r.Log.V(1).Info("The policy does not concern the enforcer any more", "key", about.key, "reason", err.Error())
		case refused(err):
			r.Metrics.report(reportRefused)
			r.Log.Error(err, "The policy server refuses a report", "key", about.key)
		default:
			r.Metrics.report(reportFailed)
			r.keep(about, s, false)
			failed = worst(failed, err)
		}
	}
	return failed
}

// worst returns the first failure, unless a later one shows that no one is there.
func worst(first, next error) error {
	if first == nil || unreachable(next) {
		return next
	}
	return first
}

// unreachable reports whether no server has answered, so that further reports are pointless.
func unreachable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}

// refused reports whether the server will never take this report.
func refused(err error) bool {
	return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsRequestEntityTooLargeError(err)
}
