package instance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

const (
	labCluster = "11111111-2222-3333-4444-555555555555"
	labAccount = "vms/shop"
	home       = "eu-west-1"
	homeVPC    = "vpc-1"
)

// town is a cloud with one network, the shares of a process, and what its presence asks for.
type town struct {
	cloud.Provider
	tags  map[string]string
	blind bool
	// other, if set, marks the network at every look, as another instance does.
	other string
	count int

	holds    bool
	stopped  map[string]string
	takeOver string
	halted   int
	beats    int
}

func (c *town) Networks(context.Context, cloud.Scope) ([]cloud.Network, error) {
	if c.blind {
		return nil, &cloud.Error{Class: cloud.Unavailable, Call: "DescribeVpcs", Err: errors.New("away")}
	}
	if c.other != "" {
		c.count++
		c.tags[cloud.TagInstance] = fmt.Sprintf("%s %d %s", c.other, c.count, labHeartbeat)
	}
	tags := map[string]string{}
	for k, v := range c.tags {
		tags[k] = v
	}
	return []cloud.Network{{ID: homeVPC, Tags: tags}}, nil
}

func (c *town) Apply(_ context.Context, _ cloud.Scope, op cloud.Op) (string, error) {
	for k, v := range op.Tags {
		c.tags[k] = v
	}
	return op.Target, nil
}

func (c *town) Mine(string) bool            { return true }
func (c *town) Holds(string) bool           { return c.holds }
func (c *town) Before(string) tenure.Record { return tenure.Record{} }
func (c *town) Sequence() uint64            { c.beats++; return uint64(c.beats) }
func (c *town) Stopped() map[string]string  { return c.stopped }
func (c *town) Stop(account, epoch string)  { c.stopped[account] = epoch }
func (c *town) Heartbeat(string, error)     {}
func (c *town) SoleWriter(string, bool)     {}

// stepsAbout is a plan with a step about each object.
func stepsAbout(ids ...string) plan.Plan {
	var p plan.Plan
	for _, id := range ids {
		p.Steps = append(p.Steps, plan.Step{Scope: cloud.Scope{Account: labAccount, Region: home}, Op: cloud.Op{Kind: cloud.OpTag, Target: id}})
	}
	return p
}

// TestPresence follows one account through its life: nothing may be written before somebody has
// looked, while the cluster does not let this process, while the marks cannot be read, and while
// another instance is at work; and it may again when that is over.
func TestPresence(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	c := &town{tags: map[string]string{}, stopped: map[string]string{}, holds: true}
	places, err := Open(Process{Epoch: "us", Heartbeat: labHeartbeat, Shares: c}, labPause, clk, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	p := NewPresence(places, Subject{Account: labAccount, ClusterID: labCluster, Clock: clk, Log: logr.Discard(), Metrics: c,
		Halt: func() { c.halted++ }, Wake: func() {},
		View: func() (View, bool) {
			seen := &cloud.Snapshot{Scope: cloud.Scope{Account: labAccount, Region: home}, Networks: []cloud.Network{{ID: homeVPC, Tags: c.tags}}}
			return View{Provider: c, Snapshots: map[string]*cloud.Snapshot{home: seen}, TakeOver: c.takeOver}, true
		}})
	if p.May(home) {
		t.Fatal("it may write before it has looked")
	}
	for _, step := range []struct {
		name  string
		do    func()
		may   bool
		state tenure.State
		halts bool
	}{
		{name: "nothing is claimed", do: func() {}, may: true, state: tenure.Sole},
		{name: "a network is claimed and marked", do: func() {
			c.tags[cloud.TagClaim] = labCluster
			p.Claims(t.Context(), c, stepsAbout(homeVPC))
		}, may: true, state: tenure.Sole},
		{name: "the account goes to another process", do: func() { c.holds = false }, state: tenure.Sole, halts: true},
		{name: "and comes back", do: func() { c.holds = true }, may: true, state: tenure.Sole},
		{name: "the marks cannot be read", do: func() { c.blind = true }, state: tenure.Sole},
		{name: "they can", do: func() { c.blind = false }, may: true, state: tenure.Sole},
		{name: "another instance writes", do: func() { c.other = "else" }, state: tenure.Stopped, halts: true},
		{name: "it has stopped, and nobody says to go on", do: func() { c.other = "" }, state: tenure.Stopped, halts: true},
		{name: "somebody says so", do: func() { c.takeOver = "else" }, may: true, state: tenure.Sole},
	} {
		step.do()
		c.halted = 0
		for range 40 { // more than it takes to take a mark for a dead one
			p.Cycle(t.Context())
			clk.Step(labPause)
		}
		p.Cycle(t.Context())
		is := p.Sole()
		if p.May(home) != step.may || is.State != step.state || c.halted > 0 != step.halts {
			t.Errorf("%s: may write: %t, halted %d times, %+v", step.name, p.May(home), c.halted, is)
		}
		part, why := p.Permitted(stepsAbout("sg-1", "sg-2"), nil)
		if (len(part.Steps) == 2) != step.may || (why != nil) != (step.state == tenure.Stopped) {
			t.Errorf("%s: permitted: %d steps, %v", step.name, len(part.Steps), why)
		}
		if step.state == tenure.Stopped && c.stopped[labAccount] != "else" {
			t.Errorf("%s: stopped: %v", step.name, c.stopped)
		}
	}
	if m, ours := tenure.ParseMark(c.tags[cloud.TagInstance]); !ours || m.Epoch != "us" {
		t.Errorf("the mark is %q", c.tags[cloud.TagInstance])
	}
	// A claim that is given up takes the mark along.
	op, tried := p.LetGo(home, cloud.Op{Kind: cloud.OpUntag, Target: homeVPC, Tags: map[string]string{cloud.TagClaim: labCluster}})
	if _, with := op.Tags[cloud.TagInstance]; !with {
		t.Errorf("the mark stays: %v", op.Tags)
	}
	tried(nil)
}
