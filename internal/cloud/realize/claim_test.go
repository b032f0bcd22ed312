package realize

import (
	"context"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// rival is a second controller that claims every network within a moment of our claim: before it,
// or after it.
type rival struct {
	cloud.Provider
	l     *lab
	after bool
}

const rivalCluster = "99999999-2222-3333-4444-555555555555"

func (r *rival) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	claim := func() {
		if err := r.l.region(s.Region).CreateTags([]string{op.Target}, []aws.Tag{{Key: cloud.TagClaim, Value: rivalCluster}}); err != nil {
			r.l.Error(err)
		}
	}
	ours := op.Kind == cloud.OpTag && op.Tags[cloud.TagClaim] != ""
	if ours && !r.after {
		claim()
	}
	id, err := r.Provider.Apply(ctx, s, op)
	if ours && r.after {
		claim()
	}
	return id, err
}

// TestClaimRace: of two controllers the one that claims last has the network, and the other one has
// done nothing but claim it.
func TestClaimRace(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"the other one claims just before us": false, "the other one claims just after us": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			l.accounts.account.Provider = &rival{Provider: l.accounts.account.Provider, l: l, after: after}
			l.engine.PutPolicy(webIn())
			l.publish()
			l.start()
			l.until("it steps back", func() bool {
				r, _ := l.realizer.Report(labAccount)
				return r.Err == nil && r.Result != nil && r.Result.Plan.Empty() && r.Claims[homeVPC] == rivalCluster
			})
			r, _ := l.realizer.Report(labAccount)
			if len(r.Result.Refusals) == 0 || !strings.Contains(r.Result.Refusals[0].Message, rivalCluster) {
				t.Errorf("refusals %v", r.Result.Refusals)
			}
			if len(l.ours()) != 0 {
				t.Errorf("we have made groups: %v", l.ours())
			}
		})
	}
}
