package admission

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/translate"
)

// ValidateGroup returns what is wrong with a Group or ClusterGroup, given the others of its kind
// (and Namespace). A child that does not exist is fine.
func ValidateGroup(g *policy.Group, others []policy.Group) []policy.FieldError {
	c := &checker{}
	parts := partsOf(g)
	if strings.Contains(parts, " and ") {
		c.given("spec", parts, "at most one of podSelector, nodeSelector, externalEntitySelector, serviceReference, ipBlocks, childGroups")
	} else if g.NamespaceSelector != nil && parts != "" && g.PodSelector == nil && g.ExternalEntitySelector == nil {
		c.given("spec.namespaceSelector", parts+" and namespaceSelector", "namespaceSelector only with podSelector or externalEntitySelector")
	}
	c.selectors("spec", g.PodSelector, g.NamespaceSelector, g.ExternalEntitySelector, g.NodeSelector)
	multicast := 0
	for i := range g.IPBlocks {
		c.errs = append(c.errs, translate.CheckIPBlock(&g.IPBlocks[i], at("spec.ipBlocks", i))...)
		if isMulticast(g.IPBlocks[i].CIDR) {
			multicast++
		}
	}
	if multicast > 0 && multicast < len(g.IPBlocks) {
		c.given("spec.ipBlocks", "multicast and other addresses", "either multicast ipBlocks only, or no multicast ipBlock")
	}
	c.children(g, others)
	return c.errs
}

// partsOf names what a group is made of, the namespaceSelector aside.
func partsOf(g *policy.Group) string {
	return fieldNames([]setField{
		{g.PodSelector != nil, "podSelector"}, {g.NodeSelector != nil, "nodeSelector"}, {g.ExternalEntitySelector != nil, "externalEntitySelector"},
		{g.ServiceReference != nil, "serviceReference"}, {len(g.IPBlocks) > 0, "ipBlocks"}, {len(g.ChildGroups) > 0, "childGroups"},
	})
}

// children checks that groups nest one level only.
func (c *checker) children(g *policy.Group, others []policy.Group) {
	if len(g.ChildGroups) == 0 {
		return
	}
	for i, name := range g.ChildGroups {
		if name == g.Name {
			c.add(at("spec.childGroups", i), name, "another group")
		}
	}
	for _, o := range others {
		if o.Name == g.Name {
			continue
		}
		if i := slices.Index(g.ChildGroups, o.Name); i >= 0 && len(o.ChildGroups) > 0 {
			c.add(at("spec.childGroups", i), o.Name, "a group without childGroups: groups nest one level only")
		}
		if slices.Contains(o.ChildGroups, g.Name) {
			c.add("spec.childGroups", g.ChildGroups[0], "no childGroups in a group that is itself a child, of "+o.Name)
		}
	}
}

// MaxTiers is the number of tiers that may exist.
const MaxTiers = 20

// ValidateNewTier returns what is wrong with a Tier about to be created, given the existing ones.
// Nothing is wrong with a system tier that has its priority, whatever else there is: it must be
// possible to put it back.
func ValidateNewTier(t policy.Tier, existing []policy.Tier) []policy.FieldError {
	c := &checker{}
	if isSystemTier(t) {
		return nil
	}
	priority := strconv.Itoa(int(t.Priority))
	if len(existing) >= MaxTiers {
		c.add("metadata.name", t.Name, "no more than "+strconv.Itoa(MaxTiers)+" tiers")
	}
	switch t.Priority {
	case 220, 251, 252, 254, 255:
		c.add("spec.priority", priority, "a priority from 0 to 249 other than 220: the others are reserved")
		return c.errs
	}
	for _, o := range existing {
		if o.Priority == t.Priority && o.Name != t.Name {
			c.add("spec.priority", priority, "a priority that no other Tier has; "+o.Name+" has it")
		}
	}
	return c.errs
}

// isSystemTier says whether t is a system tier as it ought to be.
func isSystemTier(t policy.Tier) bool { return slices.Contains(policy.SystemTiers(), t) }

// ValidateTierUpdate returns what is wrong with a change of a Tier: its priority is fixed. A system
// tier may be given back its own.
func ValidateTierUpdate(old, now policy.Tier) []policy.FieldError {
	if old.Priority == now.Priority || isSystemTier(now) {
		return nil
	}
	return []policy.FieldError{{Field: "spec.priority", Value: strconv.Itoa(int(now.Priority)),
		Want: "the priority the Tier was created with, " + strconv.Itoa(int(old.Priority))}}
}

// ValidateTierDelete returns why a Tier cannot be deleted, given the policies.
func ValidateTierDelete(name string, policies []policy.Policy) []policy.FieldError {
	c := &checker{}
	for _, t := range policy.SystemTiers() {
		if t.Name == name {
			c.add("metadata.name", name, "a Tier that is not a system tier")
		}
	}
	for i := range policies {
		if policies[i].Tier == name {
			user := "ClusterNetworkPolicy " + policies[i].Name
			if ns := policies[i].Namespace; ns != "" {
				user = "NetworkPolicy " + ns + "/" + policies[i].Name
			}
			c.add("metadata.name", name, "a Tier to which no policy refers; "+user+" does")
			break
		}
	}
	return c.errs
}
