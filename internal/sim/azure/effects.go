package azure

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/sim/effect"
)

// wholes are what edits of a resource are about: the rules of a network security group, the groups
// of an interface, the group of a subnet.
func wholes(key string, r *Resource) map[string]effect.Parts {
	if r == nil {
		return nil
	}
	switch p := r.parsed.(type) {
	case *securityGroup:
		return map[string]effect.Parts{key: effect.PartsOf(p.rules, rulePart)}
	case *nic:
		own := effect.Parts{groupPart: p.nsg}
		for _, c := range p.configurations {
			own[c.name] = c.asgs
		}
		return map[string]effect.Parts{key: own}
	case *network:
		out := map[string]effect.Parts{}
		for i := range p.subnets {
			out[r.id.Child("subnets", p.subnets[i].name).Key()] = effect.Parts{groupPart: p.subnets[i].nsg}
		}
		return out
	}
	return nil
}

func rulePart(r *rule) string { return r.direction + "/" + r.name }

// groupPart is the name of the part that is the network security group of something. No IP
// configuration has it.
const groupPart = "/"

// record notes what becomes of a resource.
func (c *Cloud) record(key string, before, after *Resource) {
	if before == nil || !c.settings.Effects.Keeps() {
		return
	}
	then := wholes(key, after)
	for whole, parts := range wholes(key, before) {
		c.settings.Effects.Record(whole, parts, then[whole])
	}
	if _, ok := before.parsed.(*securityGroup); ok && after == nil {
		c.gone[key] = before
	}
}

// seenBy is a cloud as an interface has it in force.
func seenBy(c *Cloud, p party) *Cloud {
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
		if id, ok := ParseID(whole); r == nil && ok && len(id.Types) == 2 {
			k = id.Parent().Key()
			r = out.resources[k]
		}
		if r == nil {
			continue
		}
		next := r.again()
		switch now := r.parsed.(type) {
		case *securityGroup:
			rules := now.rules
			if c.resources[k] == nil {
				rules = nil
			}
			g := &securityGroup{slices.Clone(effect.View(c.settings.Effects, viewer, whole, rules, rulePart))}
			g.sort()
			next.parsed = g
		case *nic:
			parts, n := seen(whole, r), *now
			n.nsg, _ = parts[groupPart].(string)
			n.configurations = slices.Clone(now.configurations)
			for i := range n.configurations {
				n.configurations[i].asgs, _ = parts[n.configurations[i].name].([]string)
			}
			next.parsed = &n
		case *network:
			n := *now
			n.subnets = slices.Clone(now.subnets)
			for i := range n.subnets {
				if r.id.Child("subnets", n.subnets[i].name).Key() == whole {
					n.subnets[i].nsg, _ = seen(whole, r)[groupPart].(string)
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
func again(c *Cloud, p party) party {
	if !p.inside() {
		return p
	}
	r := c.resources[p.resource.id.Key()]
	if r == nil {
		return p
	}
	n, ok := r.parsed.(*nic)
	if !ok {
		return p // an instance of a gateway, which no resource describes
	}
	for i := range n.configurations {
		if n.configurations[i].name == p.at.name {
			p.located = located{r, n, &n.configurations[i]}
		}
	}
	return p
}
