package realize

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// denyGroup makes the cloud refuse every change of a group, and returns what ends that.
func (l *lab) denyGroup(id string) (end func()) {
	fault := l.server.Faults().Add(ec2.Fault{Action: "*", Times: -1, Code: "UnauthorizedOperation", Message: "an explicit deny", Match: func(c ec2.Call) bool {
		return mutating(c) && (c.Params["GroupId"] == id || c.Params["ResourceId.1"] == id)
	}})
	return func() { l.server.Faults().Remove(fault) }
}

// insideAnd is inside with one more role among the peers.
func insideAnd(role string) policy.Policy {
	p := inside()
	p.Ingress[0].Peers = from("web", "db", "ops", role)
	p.Egress[0].Peers = from("web", "db", "ops", role)
	p.AppliedTo = applied("web", "db", "ops", role)
	return p
}

// TestOneGroupIsDenied: where the cloud refuses every change of a group of ours, its interfaces
// stay as they are, interfaces that would move to a group that its rules would have to name wait,
// and everything else goes on. The refused call is repeated after growing pauses.
func TestOneGroupIsDenied(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	before := l.holdings()
	l.engine.PutPolicy(insideAnd("special"))
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	l.start()
	l.settle()
	group := l.holdings().NICs[l.vms["db-1"].nic][0]
	was := l.actual()
	end := l.denyGroup(group)
	l.relabel("web-1", "special")
	p := clusterPolicy("special", 1, 3)
	p.AppliedTo = applied("special")
	p.Ingress = []policy.Rule{{Action: policy.Drop, Peers: from("ops"), Ports: ports(22)}}
	l.engine.PutPolicy(p)
	q := clusterPolicy("no-ops", 1, 3)
	q.AppliedTo = applied("ops")
	q.Ingress = []policy.Rule{{Action: policy.Drop, Peers: from("web"), Ports: ports(22)}}
	l.engine.PutPolicy(q)
	l.publish()
	waiting := []string{"web-1", "web-2", "db-1"}
	l.until("the others are enforced", func() bool {
		return compare(l.actual().without(waiting...), l.wanted().without(waiting...)) == ""
	})
	l.until("the VM of the group says why it is not", func() bool {
		x, found := l.policyOn("db-1", "inside")
		return found && !x.Realized && strings.Contains(x.Message, "an explicit deny")
	})
	l.until("the moving interface names what it waits for", func() bool {
		x, found := l.policyOn("web-1", "special")
		return found && !x.Realized && strings.Contains(x.Message, l.vms["db-1"].nic)
	})
	for p, allowed := range l.actual() {
		if (strings.HasPrefix(p.from, "db") || strings.HasPrefix(p.to, "db")) && was[p] && l.wanted()[p] && !allowed {
			t.Errorf("%s was cut", p)
		}
	}
	end()
	l.settle()
	l.as(l.wanted())
	end = l.denyGroup(group)
	for _, name := range []string{"special", "no-ops", "inside", "db-no-shell"} {
		l.engine.DeletePolicy("uid-" + name)
	}
	l.publish()
	l.until("it says why it is not given back", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return strings.Contains(status.BlockedText(r.Blocked), "an explicit deny")
	})
	end()
	l.until("all are given back", func() bool { return maps.EqualFunc(l.holdings().NICs, before.NICs, slices.Equal) })
}

// TestGroupsThatMustNotBeDeleted: where the cloud forbids to delete groups, as a lock does, all
// else is done: what is over is given back, and policies that come later are enforced.
func TestGroupsThatMustNotBeDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	before := l.holdings()
	l.engine.PutPolicy(webIn())
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	l.start()
	l.settle()
	fault := l.server.Faults().Add(ec2.Fault{Action: "DeleteSecurityGroup", Times: -1, Code: "UnauthorizedOperation", Message: "an explicit deny"})
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.until("it is given back", func() bool {
		return slices.Equal(l.holdings().NICs[l.vms["web-1"].nic], before.NICs[l.vms["web-1"].nic]) && compare(l.actual(), l.wanted()) == ""
	})
	l.until("what stays is told", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return r.Err != nil && strings.Contains(r.Err.Error(), "DeleteGroup") && strings.Contains(r.Err.Error(), "an explicit deny")
	})
	l.engine.PutPolicy(inside())
	l.publish()
	l.until("what comes later is enforced", func() bool { return compare(l.actual(), l.wanted()) == "" })
	l.server.Faults().Remove(fault)
	out(l)
	l.publish()
	l.settle()
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("left behind:\n%s", d)
	}
}

// TestLockedGroupsOfOneInterface: of an interface with several groups that the cloud refuses to
// change, all stay locked until its pause is over. If the last one took the place of the others,
// these would be tried in turns without any pause.
func TestLockedGroupsOfOneInterface(t *testing.T) {
	t.Parallel()
	var b blocks
	nic, now := plan.InterfaceKey{Region: home, ID: "eni-1"}, time.Unix(1000, 0)
	locked := func() (ids []string) {
		for key := range b.groups(now) {
			ids = append(ids, key.ID)
		}
		slices.Sort(ids)
		return ids
	}
	for _, group := range []string{"sg-1", "sg-2", "sg-1", ""} {
		b.add(nic, "no right", group, now, longestBlock)
	}
	if got := locked(); !slices.Equal(got, []string{"sg-1", "sg-2"}) {
		t.Errorf("locked are %v", got)
	}
	now = now.Add(longestBlock)
	if got := locked(); len(got) > 0 {
		t.Errorf("after the pause %v", got)
	}
	b.add(nic, "no right", "sg-2", now, longestBlock)
	if got := locked(); !slices.Equal(got, []string{"sg-2"}) {
		t.Errorf("tried again, locked are %v", got)
	}
}
