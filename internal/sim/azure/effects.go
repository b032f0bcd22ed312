package azure

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// wholes are what edits of a resource are about: the rules of a network security group, the groups
// of an interface, the group of a subnet.
func wholes(key string, r *Resource) map[string]effect.Parts {
	if r == nil {
		return nil
	}
	switch p := r.parsed.(type) {
	case *document.SecurityGroup:
		return map[string]effect.Parts{key: effect.PartsOf(p.Rules, rulePart)}
	case *document.NIC:
		own := effect.Parts{groupPart: p.NSG, forwardPart: p.Forwards}
		for _, c := range p.Configurations {
			own[c.Name] = c.ASGs
		}
		return map[string]effect.Parts{key: own}
	case *document.RouteTable:
		return map[string]effect.Parts{key: effect.PartsOf(p.Routes, func(r *document.Route) string { return r.Name })}
	case *document.Network:
		out := map[string]effect.Parts{}
		for i := range p.Subnets {
			out[r.id.Child("subnets", p.Subnets[i].Name).Key()] = effect.Parts{groupPart: p.Subnets[i].NSG}
		}
		return out
	}
	return nil
}

func rulePart(r *document.Rule) string { return r.Direction + "/" + r.Name }

// groupPart is the name of the part that is the network security group of something, forwardPart
// that of whether an interface forwards. No IP configuration has either.
const groupPart, forwardPart = "/", "//"

// record notes what becomes of a resource.
func (c *Cloud) record(key string, before, after *Resource) {
	if before == nil || !c.settings.Effects.Keeps() {
		return
	}
	then := wholes(key, after)
	for whole, parts := range wholes(key, before) {
		c.settings.Effects.Record(whole, parts, then[whole])
	}
	if _, ok := before.parsed.(*document.SecurityGroup); ok && after == nil {
		c.gone[key] = before
	}
}

// seenBy is a cloud as an interface has it in force.
func seenBy(c *Cloud, p endpoint) *Cloud {
	out := &Cloud{subscriptions: c.subscriptions, resources: maps.Clone(c.resources), serviceTags: c.serviceTags, tagNames: c.tagNames, learned: c.learned}
	viewer := p.resource.id.Key()
	seen := func(whole string, r *Resource) effect.Parts {
		return c.settings.Effects.Seen(viewer, whole, wholes(r.id.Key(), r)[whole])
	}
	for _, whole := range c.settings.Effects.Wholes() {
		k := whole
		r := c.resources[k]
		if r == nil {
			r = c.gone[k]
		}
		if id, ok := document.ParseID(whole); r == nil && ok && len(id.Types) == 2 {
			k = id.Parent().Key()
			r = out.resources[k]
		}
		if r == nil {
			continue
		}
		next := r.again()
		switch now := r.parsed.(type) {
		case *document.SecurityGroup:
			rules := now.Rules
			if c.resources[k] == nil {
				rules = nil
			}
			g := &document.SecurityGroup{Rules: slices.Clone(effect.View(c.settings.Effects, viewer, whole, rules, rulePart))}
			g.Sort()
			next.parsed = g
		case *document.NIC:
			parts, n := seen(whole, r), *now
			n.NSG, _ = parts[groupPart].(string)
			n.Forwards, _ = parts[forwardPart].(bool)
			n.Configurations = slices.Clone(now.Configurations)
			for i := range n.Configurations {
				n.Configurations[i].ASGs, _ = parts[n.Configurations[i].Name].([]string)
			}
			next.parsed = &n
		case *document.RouteTable:
			next.parsed = &document.RouteTable{Routes: effect.View(c.settings.Effects, viewer, whole, now.Routes, func(r *document.Route) string { return r.Name })}
		case *document.Network:
			n := *now
			n.Subnets = slices.Clone(now.Subnets)
			for i := range n.Subnets {
				if r.id.Child("subnets", n.Subnets[i].Name).Key() == whole {
					n.Subnets[i].NSG, _ = seen(whole, r)[groupPart].(string)
				}
			}
			next.parsed = &n
		default:
			continue
		}
		out.resources[k] = next
	}
	return out
}

// again finds a party in another view of the cloud.
func again(c *Cloud, p endpoint) endpoint {
	if !p.inside() {
		return p
	}
	r := c.resources[p.resource.id.Key()]
	if r == nil {
		return p
	}
	n, ok := r.parsed.(*document.NIC)
	if !ok {
		return p // an instance of a gateway, which no resource describes
	}
	for i := range n.Configurations {
		if n.Configurations[i].Name == p.at.Name {
			p.located = located{r, n, &n.Configurations[i]}
		}
	}
	return p
}
