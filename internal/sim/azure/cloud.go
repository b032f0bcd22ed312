package azure

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// Settings are the knobs of a Cloud.
type Settings struct {
	// Delay is how long operations on network resources take; 0 means that the first answer is the
	// last.
	Delay time.Duration
	// Lag is how far Resource Graph is behind.
	Lag time.Duration
	// Effects holds the edits that may not be in force yet; nil means that all are.
	Effects *effect.Log
}

// Cloud is the state; see the package comment.
type Cloud struct {
	settings Settings
	guid     func() string

	tenants       []Tenant
	principals    []*Principal
	subscriptions map[string]*Subscription
	groups        map[string]*ResourceGroup
	resources     map[string]*Resource // a resource that is in the map is never changed, only replaced
	locks         []Lock
	denials       []Denial
	operations    map[string]*Operation
	// serviceTags are by name in lower case; tagNames are their names.
	serviceTags map[string][]netip.Prefix
	tagNames    map[string]string
	learned     map[string][]netip.Prefix // by gateway

	// graph is what Resource Graph knows, and news what it will know later, in the order of time.
	graph   map[string]*Resource
	changes []publication
	running int // operations in progress
	// gone are groups that were removed while edits took time: an interface may have them in force.
	gone map[string]*Resource

	current atomic.Pointer[index]
}

type publication struct {
	at       time.Time
	key      string
	resource *Resource // nil if it is gone
}

// New makes a Cloud from a State, which it copies. guid makes up ids.
func New(s State, settings Settings, guid func() string) (*Cloud, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	c := &Cloud{
		settings: settings, guid: guid, tenants: slices.Clone(s.Tenants), subscriptions: map[string]*Subscription{}, groups: map[string]*ResourceGroup{},
		resources: map[string]*Resource{}, locks: slices.Clone(s.Locks), denials: slices.Clone(s.Denials), operations: map[string]*Operation{},
		tagNames: map[string]string{}, serviceTags: map[string][]netip.Prefix{}, graph: map[string]*Resource{}, learned: map[string][]netip.Prefix{},
		gone: map[string]*Resource{},
	}
	for name, blocks := range s.ServiceTags {
		c.tagNames[strings.ToLower(name)], c.serviceTags[strings.ToLower(name)] = name, slices.Clone(blocks)
	}
	for id, routes := range s.LearnedRoutes {
		c.learned[document.Key(id)] = slices.Clone(routes)
	}
	for _, p := range s.Principals {
		c.principals = append(c.principals, &p)
	}
	for _, x := range s.Subscriptions {
		c.subscriptions[strings.ToLower(x.ID)] = &x
	}
	for _, g := range s.Groups {
		c.groups[g.ID().Key()] = &g
	}
	for i := range s.Resources {
		r := s.Resources[i].clone()
		r.id, _ = document.ParseID(r.ID)
		r.parsed, _ = document.Parse(r.id, r.Properties) // Check has parsed it
		if r.Etag == "" {
			r.Etag = c.etag()
		}
		c.resources[r.id.Key()] = r
		c.graph[r.id.Key()] = r
	}
	for _, o := range s.Operations {
		c.operations[strings.ToLower(o.ID)] = &o
		if o.Status == document.InProgress {
			c.running++
		}
	}
	return c, nil
}

// namedTags are the service tags by their names; nil if there are none.
func (c *Cloud) namedTags() map[string][]netip.Prefix {
	var out map[string][]netip.Prefix
	for key, blocks := range c.serviceTags {
		if out == nil {
			out = map[string][]netip.Prefix{}
		}
		out[c.tagNames[key]] = slices.Clone(blocks)
	}
	return out
}

// State returns a copy of everything. It is a read.
func (c *Cloud) State() State {
	out := State{Tenants: slices.Clone(c.tenants), Locks: slices.Clone(c.locks), Denials: slices.Clone(c.denials), ServiceTags: c.namedTags()}
	for id, routes := range c.learned {
		if out.LearnedRoutes == nil {
			out.LearnedRoutes = map[string][]netip.Prefix{}
		}
		out.LearnedRoutes[id] = slices.Clone(routes)
	}
	for _, p := range c.principals {
		out.Principals = append(out.Principals, *p)
	}
	for _, k := range slices.Sorted(maps.Keys(c.subscriptions)) {
		out.Subscriptions = append(out.Subscriptions, *c.subscriptions[k])
	}
	for _, k := range slices.Sorted(maps.Keys(c.groups)) {
		out.Groups = append(out.Groups, *c.groups[k])
	}
	for _, k := range slices.Sorted(maps.Keys(c.resources)) {
		out.Resources = append(out.Resources, *c.resources[k].clone())
	}
	for _, k := range slices.Sorted(maps.Keys(c.operations)) {
		if o := c.operations[k]; o.Status == document.InProgress {
			out.Operations = append(out.Operations, *o)
		}
	}
	return out
}

// Set changes the knobs, for what happens from now on.
func (c *Cloud) Set(s Settings) { c.settings = s }

// Settings returns the knobs. It is a read.
func (c *Cloud) Settings() Settings { return c.settings }

func (c *Cloud) etag() string { return fmt.Sprintf("W/%q", c.guid()) }

// commit puts a resource in the place of the one with its id, or removes that.
func (c *Cloud) commit(now time.Time, key string, r *Resource) {
	c.record(key, c.resources[key], r)
	if r == nil {
		delete(c.resources, key)
	} else {
		c.resources[key] = r
	}
	c.current.Store(nil)
	p := publication{now.Add(c.settings.Lag), key, r}
	i := len(c.changes)
	for i > 0 && c.changes[i-1].at.After(p.at) {
		i--
	}
	c.changes = slices.Insert(c.changes, i, p)
}

// Due reports whether something happens by itself now. It is a read.
func (c *Cloud) Due(now time.Time) bool {
	if len(c.changes) > 0 && !c.changes[0].at.After(now) {
		return true
	}
	if c.running > 0 {
		for _, o := range c.operations {
			if o.Status == document.InProgress && !o.Due.After(now) {
				return true
			}
		}
	}
	return false
}

// Settle makes happen what is due.
func (c *Cloud) Settle(now time.Time) {
	if c.running > 0 {
		var due []*Operation
		for _, o := range c.operations {
			if o.Status == document.InProgress && !o.Due.After(now) {
				due = append(due, o)
			}
		}
		slices.SortFunc(due, func(a, b *Operation) int { return a.Due.Compare(b.Due) })
		for _, o := range due {
			c.end(o)
		}
	}
	n := 0
	for n < len(c.changes) && !c.changes[n].at.After(now) {
		if p := c.changes[n]; p.resource == nil {
			delete(c.graph, p.key)
		} else {
			c.graph[p.key] = p.resource
		}
		n++
	}
	c.changes = slices.Delete(c.changes, 0, n)
}

// begin starts an operation on a resource; nil if operations end at once.
func (c *Cloud) begin(w Write, id document.ID, location string) *Operation {
	if c.settings.Delay <= 0 && w.Fails == nil {
		return nil
	}
	o := &Operation{
		ID: c.guid(), Subscription: id.Subscription, Location: location, Target: id.Key(), Due: w.Now.Add(c.settings.Delay), Status: document.InProgress, Fails: w.Fails,
	}
	c.operations[strings.ToLower(o.ID)] = o
	c.running++
	return o
}

// end brings an operation to its end.
func (c *Cloud) end(o *Operation) {
	c.running--
	o.Status = document.Succeeded
	r := c.resources[o.Target]
	if o.Fails != nil {
		o.Status = document.Failed
		// What was asked for has not come about: the resource is as it was, and says that its last
		// operation failed.
		switch {
		case r == nil:
		case o.Before == nil && !o.Delete && o.Power == "":
			c.commit(o.Due, o.Target, nil)
		default:
			next := o.Before.clone()
			next.id, next.parsed = o.Before.id, o.Before.parsed
			if next.parsed == nil {
				next.id, _ = document.ParseID(next.ID)
				next.parsed, _ = document.Parse(next.id, next.Properties) // it has been parsed before
			}
			next.Provisioning, next.Etag = document.Failed, c.etag()
			c.commit(o.Due, o.Target, next)
		}
		o.Before = nil
		return
	}
	o.Before = nil
	switch {
	case r == nil:
	case o.Delete:
		c.commit(o.Due, o.Target, nil)
	default:
		next := r.again()
		next.Provisioning, next.Etag = "", c.etag()
		if o.Power != "" {
			next.Power = o.Power
		}
		c.commit(o.Due, o.Target, next)
	}
}

// again is a copy that may differ in everything but its properties.
func (r *Resource) again() *Resource {
	c := *r
	c.Tags = maps.Clone(r.Tags)
	return &c
}

// Operation returns an operation of a subscription. It is a read.
func (c *Cloud) Operation(by *Principal, subscription, id string) (Operation, error) {
	if _, err := c.subscription(by, subscription); err != nil {
		return Operation{}, err
	}
	o := c.operations[strings.ToLower(id)]
	if o == nil || !strings.EqualFold(o.Subscription, subscription) {
		return Operation{}, document.Refuse(http.StatusNotFound, "OperationNotFound", "Operation %s was not found.", id)
	}
	return *o, nil
}

// Principals returns copies of all principals. It is a read.
func (c *Cloud) Principals() []Principal {
	out := make([]Principal, len(c.principals))
	for i, p := range c.principals {
		out[i] = *p
	}
	return out
}

// Tenants returns all tenants. It is a read.
func (c *Cloud) Tenants() []Tenant { return slices.Clone(c.tenants) }

// SetPrincipal adds a principal, or replaces the one with its client id.
func (c *Cloud) SetPrincipal(p Principal) {
	for i := range c.principals {
		if strings.EqualFold(c.principals[i].ClientID, p.ClientID) {
			c.principals[i] = &p
			return
		}
	}
	c.principals = append(c.principals, &p)
}

// SetLocks replaces the locks, and SetDenials the assignments of policies.
func (c *Cloud) SetLocks(locks []Lock) { c.locks = slices.Clone(locks) }

// SetDenials replaces the assignments of policies that deny.
func (c *Cloud) SetDenials(denials []Denial) { c.denials = slices.Clone(denials) }

// SetLimits replaces the quotas of a subscription.
func (c *Cloud) SetLimits(subscription string, l Limits) error {
	s := c.subscriptions[strings.ToLower(subscription)]
	if s == nil {
		return fmt.Errorf("there is no subscription %s", subscription)
	}
	next := *s
	next.Limits = l
	c.subscriptions[strings.ToLower(subscription)] = &next
	return nil
}

// Locations are the regions that every subscription has. It is a read.
func Locations() []string {
	return []string{"australiaeast", "brazilsouth", "canadacentral", "centralus", "eastasia", "eastus", "eastus2", "francecentral", "germanywestcentral",
		"japaneast", "northcentralus", "northeurope", "southcentralus", "southeastasia", "swedencentral", "switzerlandnorth", "uksouth", "westcentralus",
		"westeurope", "westus", "westus2", "westus3"}
}
