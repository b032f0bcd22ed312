package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// guard looks at every flow after every call that may have changed the cloud: nothing may be
// allowed that neither the former nor the next policies allow, and nothing be cut that both allow.
type guard struct {
	mu         sync.Mutex
	server     *sim.Server
	flows      []flow
	old, next  []bool
	calls      map[string]int
	violations []string
	// changes are the calls that may have changed something, all of them.
	changes []ec2.Call
	// fuse counts the calls that change something; when it gets to zero, blow is called before the
	// call is answered.
	fuse int
	blow func()
}

func (g *guard) onCall(_ context.Context, c ec2.Call) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls == nil {
		g.calls = map[string]int{}
	}
	g.calls[c.Action]++
	if g.server == nil || strings.HasPrefix(c.Action, "Describe") || strings.HasPrefix(c.Action, "Get") {
		return nil
	}
	g.changes = append(g.changes, c)
	if g.fuse > 0 {
		if g.fuse--; g.fuse == 0 {
			g.blow()
		}
	}
	g.compare(fmt.Sprintf("after call %d %s", c.Seq, c.Action))
	return nil
}

// look looks at every flow though nothing was called.
func (g *guard) look(when string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.compare(when)
}

// compare notes what is open or cut and must not be. The caller holds the lock.
func (g *guard) compare(when string) {
	got := observe(g.server.World(), g.flows)
	for i, f := range g.flows {
		switch {
		case got[i] && !g.old[i] && !g.next[i]:
			g.violations = append(g.violations, fmt.Sprintf("%s it is open: %s, which neither the old nor the new policies allow", when, f))
		case !got[i] && g.old[i] && g.next[i]:
			g.violations = append(g.violations, fmt.Sprintf("%s it is cut: %s, which both the old and the new policies allow", when, f))
		}
	}
}

// between sets what holds before and after the next step.
func (g *guard) between(flows []flow, old, next []bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flows, g.old, g.next = flows, old, next
}

// takeViolations returns what was found since the last time, at most a few of them.
func (g *guard) takeViolations() (n int, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.violations
	g.violations = nil
	return len(v), strings.Join(v[:min(len(v), 8)], "\n  ")
}

// takeCalls returns the number of calls per action since the last time.
func (g *guard) takeCalls() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.calls
	g.calls = map[string]int{}
	return c
}

// changed returns the calls that may have changed something, since the beginning.
func (g *guard) changed() []ec2.Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.changes)
}

// blowAfter calls blow, once, in the middle of the nth call from now that changes something: after
// it took effect, and before its caller learns of it.
func (g *guard) blowAfter(n int, blow func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fuse, g.blow = n, blow
}
