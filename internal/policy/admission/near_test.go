package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
)

const tagKey = "nephe.antrea.io/tag-"

// TestSelectsNobody: a selector that selects nobody is told with what it may have meant; one that
// selects somebody, or may select in other Namespaces, is not.
func TestSelectsNobody(t *testing.T) {
	there := []Entity{
		{"vms", map[string]string{tagKey + "role": "database", tagKey + "env": "prod"}},
		{"vms", map[string]string{tagKey + "role": "web", tagKey + "env": "prod"}},
		{"other", map[string]string{tagKey + "team": "blue"}},
	}
	labels := func(pairs ...string) *policy.Selector {
		s := &policy.Selector{MatchLabels: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			s.MatchLabels[pairs[i]] = pairs[i+1]
		}
		return s
	}
	for name, c := range map[string]struct {
		selector, namespaces *policy.Selector
		there                []Entity
		want                 string
	}{
		"somebody":            {labels(tagKey+"role", "web"), nil, there, ""},
		"a mistyped value":    {labels(tagKey+"role", "databse"), nil, there, tagKey + `role is never "databse"; did you mean database?`},
		"another case":        {labels(tagKey+"role", "WEB"), nil, there, `did you mean web?`},
		"a far value":         {labels(tagKey+"role", "cache"), nil, there, tagKey + `role is never "cache": there is `},
		"a key without tag":   {labels("role", "web"), nil, there, "none has role; did you mean " + tagKey + "role?"},
		"a mistyped key":      {labels(tagKey+"rloe", "web"), nil, there, "none has " + tagKey + "rloe; did you mean " + tagKey + "role?"},
		"both exist, apart":   {labels(tagKey+"role", "web", tagKey+"env", "prd"), nil, there, tagKey + `env is never "prd"; did you mean prod?`},
		"of another one only": {labels(tagKey+"team", "blue"), nil, there, "none has " + tagKey + "team"},
		"other Namespaces":    {labels(tagKey+"team", "blue"), labels("a", "b"), there, ""},
		"everybody":           {&policy.Selector{}, nil, nil, ""},
		"nobody is there":     {labels(tagKey+"role", "web"), nil, nil, "there is none yet"},
		"an expression":       {&policy.Selector{MatchExpressions: []policy.Requirement{{Key: tagKey + "evn", Operator: "Exists"}}}, nil, there, "did you mean " + tagKey + "env?"},
		"what is not":         {&policy.Selector{MatchExpressions: []policy.Requirement{{Key: tagKey + "evn", Operator: "DoesNotExist"}}}, nil, there, ""},
	} {
		p := &policy.Policy{Namespace: "vms", AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: c.selector, NamespaceSelector: c.namespaces}}}
		got := policy.JoinErrors(SelectsNobody(p, slices.Values(c.there)))
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || got != "" && !strings.HasPrefix(got, "spec.appliedTo[0].externalEntitySelector: ") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestManyLabelsAreBounded: however many labels there are, what is offered is short.
func TestManyLabelsAreBounded(t *testing.T) {
	all := func(yield func(Entity) bool) {
		for i := range 20_000 {
			if !yield(Entity{"vms", map[string]string{fmt.Sprintf("key-%d", i): strings.Repeat("v", 63), "role": fmt.Sprintf("role-%d", i)}}) {
				return
			}
		}
	}
	for _, s := range []*policy.Selector{{MatchLabels: map[string]string{"role": "nobody"}}, {MatchLabels: map[string]string{"rule": "nobody"}}} {
		p := &policy.Policy{Namespace: "vms", AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: s}}}
		if got := policy.JoinErrors(SelectsNobody(p, all)); got == "" || len(got) > 300 {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	}
}

func TestHostBitsAndMissingGroups(t *testing.T) {
	p := &policy.Policy{AppliedTo: []policy.AppliedTo{{Group: "databses"}}, Ingress: []policy.Rule{{Peers: []policy.Peer{
		{IPBlock: &policy.IPBlock{CIDR: "10.1.2.3/16", Except: []string{"10.1.2.0/24", "10.1.3.1/24"}}}, {Group: "web"},
		{IPBlock: &policy.IPBlock{CIDR: "192.0.2.7/32"}}, {IPBlock: &policy.IPBlock{CIDR: "2001:db8::1/64"}}}}}}
	want := []string{
		`spec.ingress[0].from[0].ipBlock.cidr: invalid value "10.1.2.3/16": want 10.1.0.0/16, which it means, or 10.1.2.3/32 for the one address`,
		`spec.ingress[0].from[0].ipBlock.except[1]: invalid value "10.1.3.1/24": want 10.1.3.0/24, which it means, or 10.1.3.1/32 for the one address`,
		`spec.ingress[0].from[3].ipBlock.cidr: invalid value "2001:db8::1/64": want 2001:db8::/64, which it means, or 2001:db8::1/128 for the one address`,
	}
	var got []string
	for _, e := range HostBits(p) {
		got = append(got, e.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	missing := policy.JoinErrors(NoSuchGroup(p, []string{"web", "app", "databases"}))
	if missing != `spec.appliedTo[0].group: invalid value "databses": want a group that exists, one of databases, app, web` {
		t.Errorf("%s", missing)
	}
	if none := policy.JoinErrors(NoSuchGroup(p, nil)); !strings.Contains(none, "a group that exists; there is none") {
		t.Errorf("%s", none)
	}
	if tier := policy.JoinErrors(NoSuchTier("securtyops", []string{"application", "securityops", "baseline"})); tier !=
		`spec.tier: invalid value "securtyops": want the name of an existing Tier, one of securityops, application, baseline` {
		t.Errorf("%s", tier)
	}
}
