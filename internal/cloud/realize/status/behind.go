package status

import (
	"context"
	"errors"
	"time"

	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// errBehind says that what the client reads is older than what is known: an object does not show
// our own last write yet, or is not there yet. That goes away by itself.
var errBehind = errors.New("the cache is behind")

// A report that could not be written whole because the cache is behind is written again after
// behindFirst, then twice as long each time, up to behindMost; after a failure it is failedPause.
const (
	behindFirst = 200 * time.Millisecond
	behindMost  = time.Minute
	failedPause = 5 * time.Second
)

// repetition is a report and how long it has been put off last.
type repetition struct {
	report Report
	pause  time.Duration
}

// attempt writes a report and returns how long to wait until it is written again; 0 if it need not
// be.
func (s *Writer) attempt(ctx context.Context, a *accountStatus, r repetition) time.Duration {
	behind := false
	err := recovered.Call(func() (err error) {
		behind, err = s.write(ctx, a, r.report)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return 0
	case err != nil:
		s.Log.Error(err, "Status could not be written, will be repeated", "account", r.report.Account, "stack", recovered.StackOf(err))
		return failedPause
	case behind:
		return min(max(2*r.pause, behindFirst), behindMost)
	case s.owesChanges(a, r.report):
		return changesPause
	}
	return 0
}
