package aws_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// patient lets every call that was begun come to its end. A call that is given up in mid-way may
// reach the simulator at any later time, where it would use up a fault that is meant for another
// one.
type patient struct{}

// Do implements the SDK's HTTPClient.
func (patient) Do(r *http.Request) (*http.Response, error) {
	return http.DefaultClient.Do(r.WithContext(context.WithoutCancel(r.Context())))
}

// TestEveryPage loses every page of every list in turn: a reader gets everything or an error, whole
// or narrowed.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{State: crowd(30)})
	p := l.open(aws.Config{PageSize: 5, MaxAttempts: 1, Client: patient{}})
	for name, view := range map[string]cloud.Provider{"whole": p, "narrowed": p.Narrow([]cloud.NetworkMatch{{Name: "vpc0"}})} {
		before := l.server.Journal().Counts()
		want, err := view.Observe(t.Context(), l.scope())
		if err != nil || len(want.VMs) != 30 || len(want.Interfaces) != 30 || len(want.Groups) != 40 {
			t.Fatalf("%s: %v", name, err)
		}
		after := l.server.Journal().Counts()
		lost := 0
		for action, n := range after {
			for page := 1; page <= n-before[action]; page++ {
				if action == "GetCallerIdentity" {
					continue // asked once, and remembered
				}
				lost++
				l.server.Faults().Add(ec2.Fault{Action: action, Nth: page, Code: "InternalError"})
				s, err := view.Observe(t.Context(), l.scope())
				if s != nil || cloud.ClassOf(err) != cloud.Unavailable || err == nil {
					t.Errorf("%s: page %d of %s is missing: %v, %v", name, page, action, s != nil, err)
				}
				l.server.Faults().Clear()
			}
		}
		if lost < 22 {
			t.Errorf("%s: only %d pages were lost", name, lost)
		}
	}
}
