package azure_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	config "github.com/nephele-io/nephele/config/azure"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/cloud/azure/rights"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/calls"
)

// TestProbe: with the published role every right is there; each one that is taken away is named,
// and nothing else; nothing is changed. Wrong credentials are an error.
func TestProbe(t *testing.T) {
	t.Parallel()
	role, err := simazure.ParseRole(config.Role())
	if err != nil {
		t.Fatal(err)
	}
	needed, err := rights.Actions(config.Role())
	if err != nil || len(needed) < 20 {
		t.Fatalf("%d rights, %v", len(needed), err)
	}
	l := newLab(t, nil)
	assign := func(r simazure.Role) {
		l.change(func(c *simazure.Cloud) {
			p := c.Principals()[0]
			p.Assignments = []simazure.Assignment{{Scope: "/subscriptions/" + subscription + "/resourceGroups/shop", Role: r}}
			c.SetPrincipal(p)
		})
	}
	probe := func(change ...func(*azure.Config)) (cloud.Probed, error) {
		a := l.account(append([]func(*azure.Config){func(c *azure.Config) { c.Rights = needed }}, change...)...)
		s, err := a.Observe(t.Context(), inRegion)
		if err != nil {
			s = nil
		}
		return a.Probe(t.Context(), inRegion, s)
	}
	denied := func(p cloud.Probed) (out []string) {
		for _, x := range p.Trials {
			if x.Denied {
				out = append(out, x.Action)
			}
			if !strings.Contains(strings.ToLower(x.On), "shop") && x.Untried == "" {
				t.Errorf("%+v", x)
			}
		}
		return out
	}
	assign(role)
	before := l.document(l.vnet)
	got, err := probe()
	if err != nil || len(denied(got)) > 0 || len(got.Trials) != len(needed) || got.CloudTime.IsZero() || got.LocalTime.Sub(l.now) != 0 {
		t.Fatalf("%v, %+v", err, got)
	}
	for _, right := range []string{"Microsoft.Network/networkSecurityGroups/write", "Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action", "Microsoft.Resources/tags/write"} {
		less := role
		less.NotActions = []string{right}
		assign(less)
		if got, err := probe(); err != nil || !slices.Equal(denied(got), []string{right}) {
			t.Errorf("without %s: %v, %v", right, err, denied(got))
		}
	}
	less := role
	less.NotActions = []string{"Microsoft.Authorization/*"}
	assign(less)
	if got, err := probe(); err != nil || !slices.Equal(denied(got), []string{"Microsoft.Authorization/permissions/read"}) || len(got.Trials) != 2 || got.Trials[1].Untried == "" {
		t.Errorf("without the right to ask: %v, %+v", err, got)
	}
	assign(role)
	if _, err := probe(func(c *azure.Config) { c.Credential.ClientKey = "wrong" }); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("a wrong secret: %v", err)
	}
	l.faults.Add(calls.Fault{Action: "Microsoft.Authorization/permissions/read", Status: http.StatusServiceUnavailable, Code: "ServerBusy"})
	if _, err := probe(); cloud.ClassOf(err) != cloud.Unavailable {
		t.Errorf("a busy cloud: %v", err)
	}
	for action, n := range l.journal.Counts() {
		if n > 0 && (strings.HasSuffix(action, "/write") || strings.HasSuffix(action, "/delete")) {
			t.Errorf("%d of %s", n, action)
		}
	}
	if after := l.document(l.vnet); after != before {
		t.Error("something was changed")
	}
}
