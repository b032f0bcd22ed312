package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// State is the whole content of a Cloud as plain data.
type State struct {
	Tenants       []Tenant        `json:"tenants,omitempty"`
	Principals    []Principal     `json:"principals,omitempty"`
	Subscriptions []Subscription  `json:"subscriptions,omitempty"`
	Groups        []ResourceGroup `json:"resourceGroups,omitempty"`
	Resources     []Resource      `json:"resources,omitempty"`
	Locks         []Lock          `json:"locks,omitempty"`
	Denials       []Denial        `json:"denials,omitempty"`
	Operations    []Operation     `json:"operations,omitempty"`
	// ServiceTags are the addresses of service tags, by name, which means the same in any case. A
	// tag that is not here holds no address.
	ServiceTags map[string][]netip.Prefix `json:"serviceTags,omitempty"`
	// LearnedRoutes are the prefixes that gateways of networks have learned from others, by the id
	// of the gateway. No resource tells them.
	LearnedRoutes map[string][]netip.Prefix `json:"learnedRoutes,omitempty"`
}

// Tenant is a directory.
type Tenant struct {
	ID     string `json:"id"`
	Domain string `json:"domain,omitempty"`
}

// Subscription is an account for resources.
type Subscription struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Name   string `json:"name,omitempty"`
	// State is Enabled, or what else Azure says of a subscription, as Disabled; empty is Enabled.
	State string `json:"state,omitempty"`
	// Registered lists the resource providers that the subscription has registered; nil means all.
	Registered []string `json:"registered,omitempty"`
	Limits     Limits   `json:"limits,omitzero"`
	// EmptyGroupsVoidRules makes the groups of the subscription ignore a rule as a whole that names
	// several application security groups on a side of which one has no member. The documentation
	// says nothing of it; Microsoft's support reproduced it in 2021
	// (github.com/MicrosoftDocs/azure-docs/issues/77328).
	EmptyGroupsVoidRules bool `json:"emptyGroupsVoidRules,omitempty"`
}

// Limits are the quotas of a subscription in each region. Zero fields mean the default of Azure.
type Limits struct {
	NetworkSecurityGroups     int `json:"networkSecurityGroups,omitempty"`
	ApplicationSecurityGroups int `json:"applicationSecurityGroups,omitempty"`
	RulesPerGroup             int `json:"rulesPerGroup,omitempty"`
	PrefixesPerSide           int `json:"prefixesPerSide,omitempty"`
	ASGsPerRuleSide           int `json:"asgsPerRuleSide,omitempty"`
	ASGsPerGroup              int `json:"asgsPerGroup,omitempty"`
	ASGsPerConfiguration      int `json:"asgsPerConfiguration,omitempty"`
	ConfigurationsPerASG      int `json:"configurationsPerAsg,omitempty"`
	TagsPerResource           int `json:"tagsPerResource,omitempty"`
	RouteTables               int `json:"routeTables,omitempty"`
	RoutesPerTable            int `json:"routesPerTable,omitempty"`
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		value *int
		usual int
	}{
		{&l.NetworkSecurityGroups, 5000}, {&l.ApplicationSecurityGroups, 3000}, {&l.RulesPerGroup, 1000}, {&l.PrefixesPerSide, 4000},
		{&l.ASGsPerRuleSide, 10}, {&l.ASGsPerGroup, 100}, {&l.ASGsPerConfiguration, 20}, {&l.ConfigurationsPerASG, 4000}, {&l.TagsPerResource, 50},
		// Since 2026; 200 and 400 before (github.com/MicrosoftDocs/azure-docs/pull/128572).
		{&l.RouteTables, 600}, {&l.RoutesPerTable, 1000},
	} {
		if *f.value == 0 {
			*f.value = f.usual
		}
	}
	return l
}

// ResourceGroup holds resources.
type ResourceGroup struct {
	Subscription string            `json:"subscription"`
	Name         string            `json:"name"`
	Location     string            `json:"location"`
	Tags         map[string]string `json:"tags,omitempty"`
}

// ID is the id of the group.
func (g *ResourceGroup) ID() document.ID {
	return document.ID{Subscription: g.Subscription, Group: g.Name}
}

// Resource is one resource as it was written, without what the cloud fills in.
type Resource struct {
	ID       string            `json:"id"`
	Type     string            `json:"type"`
	Location string            `json:"location,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
	Etag     string            `json:"etag,omitempty"`
	// Provisioning is the provisioning state; empty is Succeeded.
	Provisioning string `json:"provisioningState,omitempty"`
	// Power is the power state of a virtual machine: running, stopped, deallocated.
	Power      string         `json:"power,omitempty"`
	Properties map[string]any `json:"properties,omitempty"`
	// Extra are further members of the document, as sku, zones and identity.
	Extra map[string]any `json:"extra,omitempty"`

	id     document.ID
	parsed any // *securityGroup, *network, *nic, *machine or nil
}

// Lock forbids to delete, or to change at all, what is at or below a scope.
type Lock struct {
	Scope string `json:"scope"`
	Name  string `json:"name"`
	// Level is CanNotDelete or ReadOnly.
	Level string `json:"level"`
}

// Denial is an assignment of Azure Policy with the effect deny.
type Denial struct {
	// Assignment is the name of the policy assignment.
	Assignment string `json:"assignment"`
	// Scope is where it holds and Action which operations it denies, with * for any part, as in
	// Microsoft.Network/*/write.
	Scope  string `json:"scope"`
	Action string `json:"action"`
}

// Operation is a long-running one.
type Operation struct {
	ID           string    `json:"id"`
	Subscription string    `json:"subscription"`
	Location     string    `json:"location"`
	Target       string    `json:"target"` // key of the resource
	Due          time.Time `json:"due"`
	// Status is InProgress, Succeeded or Failed.
	Status string `json:"status"`
	Delete bool   `json:"delete,omitempty"`
	// Fails is what the operation ends with instead of succeeding, and Before the resource as it
	// was, which comes back then.
	Fails  *document.Error `json:"fails,omitempty"`
	Before *Resource       `json:"before,omitempty"`
	// Power is the power state that a virtual machine is in at the end.
	Power string `json:"power,omitempty"`
	// Answer is what the operation results in, where that is not the resource.
	Answer map[string]any `json:"answer,omitempty"`
}

var guid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// Empty reports whether there is no Azure at all.
func (s *State) Empty() bool { return len(s.Tenants) == 0 && len(s.Subscriptions) == 0 }

// Check reports everything that is inconsistent, joined in one error.
func (s *State) Check() error {
	var problems []error
	note := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	tenants, subscriptions, groups, resources := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	once := func(seen map[string]bool, what, name string) {
		name = strings.ToLower(name)
		if seen[name] {
			note("%s %s appears twice", what, name)
		}
		seen[name] = true
	}
	for _, t := range s.Tenants {
		if !guid.MatchString(t.ID) {
			note("tenant %q: expected a GUID", t.ID)
		}
		once(tenants, "tenant", t.ID)
	}
	for _, x := range s.Subscriptions {
		if !guid.MatchString(x.ID) || !tenants[strings.ToLower(x.Tenant)] {
			note("subscription %q: expected a GUID and a known tenant, not %q", x.ID, x.Tenant)
		}
		once(subscriptions, "subscription", x.ID)
	}
	for _, p := range s.Principals {
		if !guid.MatchString(p.ClientID) || !guid.MatchString(p.ObjectID) || !tenants[strings.ToLower(p.Tenant)] {
			note("principal %q: expected GUIDs and a known tenant, not %q", p.ClientID, p.Tenant)
		}
	}
	for _, g := range s.Groups {
		if g.Name == "" || !subscriptions[strings.ToLower(g.Subscription)] {
			note("resource group %q: expected a name and a known subscription, not %q", g.Name, g.Subscription)
		}
		once(groups, "resource group", g.ID().Key())
	}
	for i := range s.Resources {
		r := &s.Resources[i]
		id, ok := document.ParseID(r.ID)
		switch {
		case !ok || id.Provider == "":
			note("resource %q: the id cannot be read", r.ID)
			continue
		case !groups[id.GroupID().Key()]:
			note("resource %s: there is no resource group %s", r.ID, id.Group)
		}
		once(resources, "resource", id.Key())
		if _, err := document.Parse(id, r.Properties); err != nil {
			note("resource %s: %v", r.ID, err)
		}
	}
	return errors.Join(problems...)
}

// cloneMap copies a JSON object with everything in it.
func cloneMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = cloneValue(v)
	}
	return out
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return cloneMap(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = cloneValue(v[i])
		}
		return out
	}
	return v
}

func (r *Resource) clone() *Resource {
	c := *r
	c.Tags, c.Properties, c.Extra = maps.Clone(r.Tags), cloneMap(r.Properties), cloneMap(r.Extra)
	return &c
}

// PlainValue is a value as it is after it was JSON: objects, lists and scalars.
func PlainValue(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil // values that this package made up are always encodable
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}
