package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/platform/errtext"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// report tells what became of every policy, where that is new, and everything after a watch of
// policies has begun anew.
func (a *Agent) report(ctx context.Context, result nft.Result) {
	if a.loaded || a.options.Pods != nil && a.options.Pods.Blind() { // the server has not said that these are still wanted, or for which Pods
		return
	}
	now := reported{policies: a.wanted.Policies, refusals: result.Refusals, bypassed: result.Bypassed, released: a.board.releasedUntil()}
	if a.held() {
		now.held = a.probing.trial.because
	}
	if len(a.reporting.published) > 0 && now.equal(a.reporting.last) {
		return
	}
	last := a.reporting.last
	a.reporting.last = now
	refused := map[string]nft.Refusal{}
	for _, r := range result.Refusals {
		refused[r.Policy] = r
	}
	evaded := map[string][]string{}
	for _, r := range result.Bypassed {
		evaded[r.Policy] = append(evaded[r.Policy], r.String())
	}
	// Where only policies have changed, what the others were told stands.
	few := len(a.reporting.published) > 0 && now.differsOnlyInVersions(last)
	states := make([]PolicyState, len(a.wanted.Policies))
	if few {
		copy(states, a.Status().Policies)
	}
	told := map[string]bool{}
	for i, p := range a.wanted.Policies {
		if few && p == last.policies[i] {
			continue
		}
		told[p.Name] = true
		n := v1beta2.NetworkPolicyNodeStatus{NodeName: a.options.Key, Generation: p.Generation}
		r, isRefused := refused[p.Name]
		switch {
		case !now.released.IsZero():
			n.RealizationFailure, n.Message = true, "released on the host until "+now.released.UTC().Format(time.RFC3339)
		case now.held != "":
			n.RealizationFailure, n.Message = true, "the host stays as it was before policies changed, because then this fails: "+now.held
		case isRefused:
			n.RealizationFailure, n.Message = true, r.String()
			if _, former := a.compilation.good[p.Name]; former {
				n.Message += "; its former version stays in force"
			}
		case len(evaded[p.Name]) > 0:
			n.RealizationFailure, n.Message = true, strings.Join(evaded[p.Name][:min(len(evaded[p.Name]), mostTold)], "; ")
			if more := len(evaded[p.Name]) - mostTold; more > 0 {
				n.Message += fmt.Sprintf("; and %d more Pods", more)
			}
		}
		states[i] = PolicyState{Policy: *reference(p), Generation: p.Generation, Enforced: !n.RealizationFailure, Message: n.Message}
		if a.reporting.published[p.Name] == n {
			continue
		}
		a.reporting.published[p.Name] = n
		status := &v1beta2.NetworkPolicyStatus{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Nodes: []v1beta2.NetworkPolicyNodeStatus{n}}
		if err := a.options.Reports.Report(ctx, status); err != nil {
			a.options.Log.Error(err, "A report was not taken", "policy", p.Name)
		}
	}
	if !few {
		maps.DeleteFunc(a.reporting.published, func(name string, _ v1beta2.NetworkPolicyNodeStatus) bool { return !told[name] })
	}
	a.board.change(func(s *Status) { s.Policies = states })
}

// reporting is what the controller was told of policies.
type reporting struct {
	// published are the reports, by policy, and last what they were made of.
	published map[string]v1beta2.NetworkPolicyNodeStatus
	last      reported
	// begun is how many watches had begun then: a server that has begun anew may have forgotten.
	begun int
}

// reported is what reports are made of.
type reported struct {
	policies           []*v1beta2.NetworkPolicy
	refusals, bypassed []nft.Refusal
	released           time.Time
	// held is why a change is held; empty if none is.
	held string
}

func (r reported) equal(o reported) bool {
	return slices.Equal(r.policies, o.policies) && slices.Equal(r.refusals, o.refusals) && slices.Equal(r.bypassed, o.bypassed) && r.released.Equal(o.released) && r.held == o.held
}

// differsOnlyInVersions reports whether what is not the same are versions of the same policies.
func (r reported) differsOnlyInVersions(o reported) bool {
	same := func(a, b *v1beta2.NetworkPolicy) bool { return a == b || a.Name == b.Name }
	versions := r.policies
	r.policies = o.policies
	return r.equal(o) && slices.EqualFunc(versions, o.policies, same)
}

func reference(p *v1beta2.NetworkPolicy) *v1beta2.NetworkPolicyReference {
	if p.SourceRef == nil {
		return &v1beta2.NetworkPolicyReference{Name: p.Name, UID: p.UID}
	}
	return p.SourceRef
}

// telling is what the controller was told about the agent.
type telling struct {
	results chan told
	running bool
	// what it was told last, at when it was tried last.
	what string
	at   time.Time
}

type told struct {
	what string
	err  error
}

// tell tells the controller that the agent lives, now and then and when its state has changed. It
// does not wait for the answer.
func (a *Agent) tell(ctx context.Context) {
	if a.options.Info == nil || a.telling.running {
		return
	}
	s, now := a.Status(), a.options.Clock.Now()
	since := now.Sub(a.telling.at)
	if since < infoAgain || s.told() == a.telling.what && since < infoInterval {
		return
	}
	a.telling.running, a.telling.at = true, now
	go func() {
		ctx, cancel := context.WithTimeout(ctx, infoLimit)
		defer cancel()
		a.telling.results <- told{s.told(), recovered.Call(func() error { return a.options.Info(ctx, &s) })}
	}()
}

// wasTold takes in how that went.
func (a *Agent) wasTold(t told) {
	a.telling.running = false
	if t.err == nil {
		a.heed.told = true
		a.telling.what = t.what
	}
	if errors.Is(t.err, ErrNoInfo) {
		t.err = nil
	}
	if t.err != nil {
		a.options.Log.Info("Telling the controller about the agent failed", "reason", t.err.Error())
	}
	a.board.change(func(s *Status) { s.Faults.Info = errtext.Of(t.err) })
}
