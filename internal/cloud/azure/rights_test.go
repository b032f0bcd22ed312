package azure_test

import (
	"os"
	"testing"

	config "github.com/nephele-io/nephele/config/azure"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/rights"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
)

// TestPlanRole: the role for plans, as the command prints it for a resource group, reads all that
// the whole role reads, and changes nothing.
func TestPlanRole(t *testing.T) {
	raw, err := rights.Document(config.Role(), rights.Pins{Mode: rights.Plan, Subscription: subscription, Groups: []string{"shop"}})
	if err != nil {
		t.Fatal(err)
	}
	role, err := simazure.ParseRole(raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(role.AssignableScopes) != 1 {
		t.Fatalf("assignable at %q", role.AssignableScopes)
	}
	ctx := t.Context()
	l := newLab(t, nil)
	l.change(func(c *simazure.Cloud) {
		p := c.Principals()[0]
		p.Assignments = []simazure.Assignment{{Scope: role.AssignableScopes[0], Role: role}}
		c.SetPrincipal(p)
	})
	a := l.account()
	if s := l.observe(a); len(s.Interfaces) != 2 || len(s.Groups) != 2 {
		t.Errorf("%d interfaces, %d groups", len(s.Interfaces), len(s.Groups))
	}
	if err := a.SetInterfaceGroups(ctx, l.dbNIC, l.nsg, nil); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("the groups of an interface: %v", err)
	}
	if err := a.Tag(ctx, []string{l.vnet}, map[string]string{cloud.TagClaim: "c"}); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("a tag: %v", err)
	}
}

// TestRole: the role of config/azure, assigned to a resource group, is enough, and does not reach
// further.
func TestRole(t *testing.T) {
	raw, err := os.ReadFile("../../../config/azure/role.json")
	if err != nil {
		t.Fatal(err)
	}
	role, err := simazure.ParseRole(raw)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var other string
	l := newLab(t, func(b *simazure.Builder) { other = b.SecurityGroup("other", "nsg-other") })
	l.change(func(c *simazure.Cloud) {
		p := c.Principals()[0]
		p.Assignments = []simazure.Assignment{{Scope: "/subscriptions/" + subscription + "/resourceGroups/shop", Role: role}}
		c.SetPrincipal(p)
	})
	a := l.account()
	s := l.observe(a)
	if len(s.Interfaces) != 2 || len(s.Groups) != 2 {
		t.Errorf("%d interfaces, %d groups", len(s.Interfaces), len(s.Groups))
	}
	if err := a.SetInterfaceGroups(ctx, l.dbNIC, l.nsg, []string{l.asg}); err != nil {
		t.Error(err)
	}
	if err := a.Tag(ctx, []string{l.vnet}, map[string]string{cloud.TagClaim: "c"}); err != nil {
		t.Error(err)
	}
	if err := a.SetInterfaceGroups(ctx, l.dbNIC, other, nil); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("a group of another resource group: %v", err)
	}
	if err := a.Tag(ctx, []string{other}, map[string]string{cloud.TagClaim: "c"}); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("a tag in another resource group: %v", err)
	}
}
