package agentless

import (
	"net/netip"
	"testing"
	"time"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/flows"
	"github.com/nephele-io/nephele/internal/flows/judge"
	"github.com/nephele-io/nephele/internal/flows/live"
	"github.com/nephele-io/nephele/internal/policy"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// TestCertainty: a leak or a cut is one only if policies, groups and the other end were then what
// they are now, and if nothing is guessed.
func TestCertainty(t *testing.T) {
	client, server := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.1")
	web := live.Owner{Kind: "Pod", Namespace: "shop", Name: "web", Enforcer: "worker"}
	owners := live.NewOwners()
	owners.Set(web, []netip.Addr{client}, noon.Add(-time.Hour))
	for what, c := range map[string]struct {
		ago     time.Duration
		guessed bool
		from    analysis.End
		differs judge.Disagreement
		want    string
	}{
		"certain":                        {0, false, analysis.End{Kind: "Pod", Namespace: "shop", Name: "web"}, judge.Leaks, "Leaks"},
		"cut":                            {0, false, analysis.End{Kind: "Pod", Namespace: "shop", Name: "web"}, judge.Cut, "Cut"},
		"not seen to begin":              {0, false, analysis.End{Kind: "Pod", Namespace: "shop", Name: "web"}, judge.MayBeOld, "MayBeOld"},
		"agrees":                         {0, false, analysis.End{}, judge.Agrees, ""},
		"another Pod has it now":         {0, false, analysis.End{Kind: "Pod", Namespace: "shop", Name: "web-2"}, judge.Leaks, "MayBeOld"},
		"nobody has it now":              {0, false, analysis.End{}, judge.Leaks, "MayBeOld"},
		"cut, and another Pod":           {0, false, analysis.End{}, judge.Cut, ""},
		"before the change":              {10 * time.Minute, false, analysis.End{Kind: "Pod", Namespace: "shop", Name: "web"}, judge.Leaks, "MayBeOld"},
		"cut before the change":          {10 * time.Minute, false, analysis.End{Kind: "Pod", Namespace: "shop", Name: "web"}, judge.Cut, ""},
		"nothing shows which end begins": {0, true, analysis.End{Kind: "Pod", Namespace: "shop", Name: "web"}, judge.Leaks, "MayBeOld"},
	} {
		p := &Picture{Enforcer: "cloud/ops/a", Own: map[string]bool{"eni-1": true}, Owners: owners, Since: noon.Add(-10 * time.Minute), UID: func(x analysis.Policy) string { return "uid of " + x.Name }}
		r := &flows.Row{Key: flows.Key{Minute: noon.Add(-c.ago), Interface: "eni-1", Direction: cloud.Ingress, Client: client, Server: server, Protocol: 6, Port: 22, Accepted: c.differs != judge.Cut, Guessed: c.guessed}, Connections: 3, Bytes: 7}
		j := &judge.Judgement{From: c.from, To: analysis.End{Kind: "ExternalEntity", Namespace: "vms", Name: "db", Enforcer: "cloud/ops/a"}, Differs: c.differs,
			By: judge.By{Cause: judge.ByPolicy, Rule: &analysis.Rule{Policy: analysis.Policy{Type: string(policy.AntreaNetworkPolicy), Namespace: "vms", Name: "p"}, Name: "r", Index: 2}}}
		e := p.entry(r, j)
		if e.Differs != c.want {
			t.Errorf("%s: %q, want %q", what, e.Differs, c.want)
		}
		if e.ClientOwner != web || e.ServerOwner.Name != "db" || e.Connections != 3 || e.Bytes != 7 || e.Direction != "In" || e.Cause.UID != "uid of p" || e.Cause.Direction != "In" || e.Cause.Index != 2 {
			t.Errorf("%s: %+v", what, e)
		}
		if accepted := e.Verdict == "Allow"; accepted != r.Accepted {
			t.Errorf("%s: %s", what, e.Verdict)
		}
	}
}

// TestInterfacesOfOthers: what a log tells of an interface that is not the account's names nobody,
// no policy, and is no disagreement.
func TestInterfacesOfOthers(t *testing.T) {
	client, server := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.1")
	owners := live.NewOwners()
	for name, a := range map[string]netip.Addr{"web": client, "db": server} {
		owners.Set(live.Owner{Kind: "Pod", Namespace: "shop", Name: name, Enforcer: "worker"}, []netip.Addr{a}, noon.Add(-time.Hour))
	}
	p := &Picture{Enforcer: "cloud/ops/a", Own: map[string]bool{"eni-1": true}, Owners: owners, UID: func(analysis.Policy) string { return "u" }}
	rows := []flows.Row{{Key: flows.Key{Minute: noon, Interface: "eni-2", Direction: cloud.Ingress, Client: client, Server: server, Protocol: 6, Port: 22, Accepted: true}, Connections: 3}}
	e := p.Entries(rows)[0] // without a Judge: nobody is asked
	if e.ClientOwner != (live.Owner{}) || e.ServerOwner != (live.Owner{}) || e.Differs != "" || e.Cause != (live.Cause{Cause: "Unknown", Why: "InterfaceNotRead"}) || e.Connections != 3 {
		t.Errorf("%+v", e)
	}
}

// TestCauses: every cause of the judge has words, and none is a policy that is none.
func TestCauses(t *testing.T) {
	p := &Picture{UID: func(analysis.Policy) string { return "u" }}
	r := &flows.Row{Key: flows.Key{Direction: cloud.Egress}}
	for _, c := range []struct {
		by   judge.By
		want live.Cause
	}{
		{judge.By{Cause: judge.ByPolicy, Rule: &analysis.Rule{Policy: analysis.Policy{Type: string(policy.KubernetesNetworkPolicy), Name: "k"}, Index: 3}}, live.Cause{Cause: "Policy", Type: "K8sNetworkPolicy", Name: "k", UID: "u", Direction: "Out", Index: -1}},
		{judge.By{Cause: judge.ByIsolation, Policies: []analysis.Policy{{Name: "a"}, {Name: "b"}}}, live.Cause{Cause: "Isolation", Name: "a", UID: "u", Direction: "Out"}},
		{judge.By{Cause: judge.ByIsolation}, live.Cause{Cause: "Isolation", Direction: "Out"}},
		{judge.By{Cause: judge.ByNative, Group: &analysis.Group{ID: "sg-1", Name: "web"}, GroupRule: "tcp 80"}, live.Cause{Cause: "Group", Why: "group web, tcp 80"}},
		{judge.By{Cause: judge.ByGroups, Group: &analysis.Group{ID: "sg-1"}, GroupRule: "tcp 80"}, live.Cause{Cause: "Group", Why: "group sg-1, tcp 80, policies not in force"}},
		{judge.By{Cause: judge.ByNative}, live.Cause{Cause: "Group", Why: "no group of the machine allows it"}},
		{judge.By{Cause: judge.ByFailsafe, Account: "ops/a"}, live.Cause{Cause: "Failsafe", Rule: "ops/a"}},
		{judge.By{Cause: judge.ByACL, ACL: &analysis.ACLEntry{ACL: "acl-1", Entry: 100}}, live.Cause{Cause: "NetworkACL", Why: "network ACL acl-1, entry 100"}},
		{judge.By{Cause: judge.ByNobody}, live.Cause{Cause: "Native"}},
		{judge.By{Cause: judge.ByUnknown, Why: judge.WhyNotRead}, live.Cause{Cause: "Unknown", Why: "InterfaceNotRead"}},
	} {
		if got := p.cause(r, &c.by); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}
