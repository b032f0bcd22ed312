package realize

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// rulesOf are the rules of a group by name, as text.
func (l *lab) rulesOf(name string) []string { return l.holdings().Groups[l.groupNamed(name)] }

// TestFollow: a database that nobody selects, and whose group names that of the web servers, still
// admits them when they are taken over, and its group is given back as it was. All of it with the
// documented rights.
func TestFollow(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{follows: []string{"db"}, stay: []string{"db-1"}})
	before := l.holdings()
	to := probe{from: "web-1", to: "db-1", port: 5432}
	if !l.actual()[to] {
		t.Fatal("the database does not admit the web servers; the test shows nothing")
	}
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	l.as(l.wanted())
	if !l.actual()[to] {
		t.Error("the database admits the web servers no longer")
	}
	if now, was := len(l.rulesOf("db")), len(before.Groups[l.groupNamed("db")]); now != was+2 {
		t.Errorf("the group of the database has %d rules, want %d: %v", now, was+2, l.rulesOf("db"))
	}
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.settle()
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Errorf("not given back as it was:\n%s", d)
	}
}

// TestCutIsTold: what the database loses is said in the report, and its group is left alone.
func TestCutIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{stay: []string{"db-1"}})
	l.accounts.account.Dependents.Default = plan.CutDependents
	before := l.rulesOf("db")
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.until("the web servers are realized", func() bool {
		p, found := l.policyOn("web-1", webIn().Name)
		return found && p.Realized
	})
	if l.actual()[probe{from: "web-1", to: "db-1", port: 5432}] {
		t.Error("nothing was cut; the test shows nothing")
	}
	if !slices.Equal(before, l.rulesOf("db")) {
		t.Errorf("the group of the database was changed: %v", l.rulesOf("db"))
	}
	r, _ := l.realizer.Report(labAccount)
	text := ""
	for _, c := range r.Result.Cuts {
		text += render.CutIn(r.Seen[c.Region], c) + "\n"
	}
	if !strings.Contains(text, "tcp 5432") || !strings.Contains(text, "db-1 loses") || !strings.Contains(text, "web-1") {
		t.Errorf("the cuts are %q", text)
	}
}

// TestNoRightWithoutTheTag: the documented rights do not let us change a group whose owner has not
// said so.
func TestNoRightWithoutTheTag(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{stay: []string{"db-1"}})
	provider := l.newProvider()
	_, err := provider.Apply(t.Context(), cloud.Scope{Account: labAccount, Region: home}, cloud.Op{
		Kind: cloud.OpAddRules, Target: l.groupNamed("db"), Rules: []cloud.Rule{{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 1, 1),
			Peer: cloud.Peer{GroupID: l.groupNamed("web")}}},
	})
	if cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("%v", err)
	}
}
