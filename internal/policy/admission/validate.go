package admission

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/translate"
)

// Baseline is the tier in which rules must not have the action Pass.
const Baseline = "baseline"

// legacyTiers are the names that the system tiers once had; they are still accepted.
const legacyTiers = " Emergency SecurityOps NetworkOps Platform Application Baseline "

// checker collects errors.
type checker struct {
	errs []policy.FieldError
	// stored says that an API server has the object already.
	stored bool
}

func (c *checker) add(field, value, want string) {
	c.errs = append(c.errs, policy.FieldError{Field: field, Value: value, Want: want})
}

// given adds an error that no single value is at fault of: the names of the fields that are set, or
// "nothing".
func (c *checker) given(field, given, want string) {
	c.errs = append(c.errs, policy.FieldError{Field: field, Given: given, Want: want})
}

// setField is a field that may be set, by name.
type setField struct {
	set  bool
	name string
}

// fieldNames lists the fields that are set, in words.
func fieldNames(fields []setField) string {
	var names []string
	for _, f := range fields {
		if f.set {
			names = append(names, f.name)
		}
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

func at(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// ValidatePolicy returns what is wrong with an Antrea policy, given the priorities of the existing
// tiers by name. Errors come in the order of the fields, errors of the whole policy first.
func ValidatePolicy(p *policy.Policy, tiers map[string]int32) []policy.FieldError {
	c := &checker{}
	if _, ok := tiers[p.Tier]; p.Tier != "" && !ok && !strings.Contains(legacyTiers, " "+p.Tier+" ") {
		c.errs = append(c.errs, NoSuchTier(p.Tier, slices.Collect(maps.Keys(tiers)))...)
	}
	c.names(p)
	c.placement(p)
	c.appliedTo(p.AppliedTo, "spec.appliedTo")
	for i, a := range p.AppliedTo {
		if a.Service != nil && len(p.Egress) > 0 {
			c.add(at("spec.appliedTo", i)+".service", a.Service.Name, "no service where there are egress rules")
		}
	}
	for i := range p.Ingress {
		c.rule(p, policy.Ingress, &p.Ingress[i], at("spec.ingress", i))
	}
	for i := range p.Egress {
		c.rule(p, policy.Egress, &p.Egress[i], at("spec.egress", i))
	}
	return c.errs
}

// eachRule calls f for every rule with its path.
func eachRule(p *policy.Policy, f func(path string, r *policy.Rule)) {
	for i := range p.Ingress {
		f(at("spec.ingress", i), &p.Ingress[i])
	}
	for i := range p.Egress {
		f(at("spec.egress", i), &p.Egress[i])
	}
}

// names checks that rule names are unique.
func (c *checker) names(p *policy.Policy) {
	first := make(map[string]string)
	eachRule(p, func(path string, r *policy.Rule) {
		if r.Name == "" {
			return
		}
		if other, ok := first[r.Name]; ok {
			c.add(path+".name", r.Name, "rule names that are unique in the policy; "+other+" has the same one "+
				"(rules without a name that are equal need names)")
			return
		}
		first[r.Name] = path
	})
}

// placement checks that appliedTo stands either in spec or in every rule.
func (c *checker) placement(p *policy.Policy) {
	with, without := "", ""
	eachRule(p, func(path string, r *policy.Rule) {
		switch {
		case len(r.AppliedTo) > 0 && with == "":
			with = path
		case len(r.AppliedTo) == 0 && without == "":
			without = path
		}
	})
	switch {
	case len(p.AppliedTo) > 0 && with != "":
		c.given(with+".appliedTo", "appliedTo in the rule and in spec", "appliedTo either in spec or in rules, not in both")
	case len(p.AppliedTo) == 0 && with == "":
		c.given("spec.appliedTo", "nothing", "appliedTo in spec or in every rule")
	case len(p.AppliedTo) == 0 && without != "":
		c.given(without+".appliedTo", "nothing", "appliedTo in every rule if it is in any")
	}
}

// appliedTo checks one list.
func (c *checker) appliedTo(list []policy.AppliedTo, path string) {
	services := 0
	for i := range list {
		a, path := &list[i], at(path, i)
		alone := []setField{{a.Group != "", "group"}, {a.ServiceAccount != nil, "serviceAccount"}, {a.Service != nil, "service"}, {a.NodeSelector != nil, "nodeSelector"}}
		selectors := []setField{
			{a.PodSelector != nil, "podSelector"}, {a.NamespaceSelector != nil, "namespaceSelector"}, {a.ExternalEntitySelector != nil, "externalEntitySelector"},
		}
		c.alone(path, alone, selectors, "group, serviceAccount, service or nodeSelector alone, without any other field")
		c.oneKind(path, a.PodSelector, a.ExternalEntitySelector)
		if a.Service != nil {
			services++
		}
		c.selectors(path, a.PodSelector, a.NamespaceSelector, a.ExternalEntitySelector, a.NodeSelector)
	}
	if services > 0 && services < len(list) {
		c.given(path, "service and other entries", "either services only or no service")
	}
}

// oneKind checks that an entry does not select Pods and ExternalEntities at once. Antrea takes it
// for ExternalEntities, without a word.
func (c *checker) oneKind(path string, pod, external *policy.Selector) {
	if pod != nil && external != nil {
		c.given(path, "podSelector and externalEntitySelector", "either podSelector or externalEntitySelector; two entries select both")
	}
}

// alone checks that of the fields that stand alone none is together with another one; it reports
// whether one is there.
func (c *checker) alone(path string, alone, others []setField, want string) bool {
	first := fieldNames(alone)
	if first == "" {
		return false
	}
	if all := fieldNames(slices.Concat(alone, others)); strings.Contains(all, " and ") {
		c.given(path, all, want)
	}
	return true
}

func count(selectors ...*policy.Selector) int {
	n := 0
	for _, s := range selectors {
		if s != nil {
			n++
		}
	}
	return n
}

// selectors checks the four selectors that peers, appliedTo and groups have.
func (c *checker) selectors(path string, pod, namespace, external, node *policy.Selector) {
	c.errs = append(c.errs, selectors.Check(pod, path+".podSelector")...)
	c.errs = append(c.errs, selectors.Check(namespace, path+".namespaceSelector")...)
	c.errs = append(c.errs, selectors.Check(external, path+".externalEntitySelector")...)
	c.errs = append(c.errs, selectors.Check(node, path+".nodeSelector")...)
}

// rule checks one rule.
func (c *checker) rule(p *policy.Policy, d policy.Direction, r *policy.Rule, path string) {
	if r.Action == policy.Pass && strings.EqualFold(p.Tier, Baseline) {
		c.add(path+".action", string(r.Action), "Allow, Drop or Reject in the baseline tier")
	}
	c.appliedTo(r.AppliedTo, path+".appliedTo")
	toService := false
	for i, a := range r.AppliedTo {
		if a.Service == nil {
			continue
		}
		toService = true
		if d == policy.Egress {
			c.add(at(path+".appliedTo", i)+".service", a.Service.Name, "no service in an egress rule")
		}
	}
	for _, a := range p.AppliedTo {
		toService = toService || a.Service != nil
	}
	side := ".from"
	if d == policy.Egress {
		side = ".to"
	}
	for i := range r.Peers {
		c.peer(d, &r.Peers[i], at(path+side, i), toService && d == policy.Ingress)
	}
	if len(r.ToServices) > 0 {
		switch {
		case d == policy.Ingress:
			c.add(path+".toServices", r.ToServices[0].Name, "no toServices in an ingress rule")
		case len(r.Peers) > 0:
			c.add(path+".toServices", r.ToServices[0].Name, "no `toServices` together with `to`")
		case len(r.Ports) > 0:
			c.add(path+".toServices", r.ToServices[0].Name, "no `toServices` together with `ports`")
		case len(r.Protocols) > 0:
			c.add(path+".toServices", r.ToServices[0].Name, "no `toServices` together with `protocols`")
		}
	}
	for i := range r.Ports {
		c.errs = append(c.errs, translate.CheckPort(&r.Ports[i], at(path+".ports", i))...)
		if port := r.Ports[i].Port; port != nil && port.Name != "" && strings.Trim(port.Name, "0123456789") == "" {
			c.add(at(path+".ports", i)+".port", port.Name, "a number without quotes, or a name, which has a letter")
		}
	}
	c.multicast(d, r, path)
	c.l7(r, path)
}

// peer checks one peer. Where several of ipBlock, fqdn and selectors are given, the engine takes
// the first; that is accepted, as Antrea accepts it.
func (c *checker) peer(d policy.Direction, p *policy.Peer, path string, toService bool) {
	stands := c.alone(path,
		[]setField{{p.Group != "", "group"}, {p.ServiceAccount != nil, "serviceAccount"}, {p.NodeSelector != nil, "nodeSelector"}},
		[]setField{
			{p.PodSelector != nil, "podSelector"}, {p.NamespaceSelector != nil, "namespaceSelector"}, {p.ExternalEntitySelector != nil, "externalEntitySelector"},
			{p.Namespaces != nil, "namespaces"}, {p.IPBlock != nil, "ipBlock"}, {p.FQDN != "", "fqdn"},
		}, "group, serviceAccount or nodeSelector alone, without any other field")
	if !stands && p.Namespaces != nil && p.NamespaceSelector != nil {
		c.given(path, "namespaces and namespaceSelector", "either namespaces or namespaceSelector")
	}
	c.oneKind(path, p.PodSelector, p.ExternalEntitySelector)
	if toService && (p.IPBlock == nil || stands) {
		c.given(path, "another kind of peer", "ipBlock only, in a rule that applies to a service")
	}
	if p.FQDN != "" {
		if d == policy.Ingress {
			c.add(path+".fqdn", p.FQDN, "no fqdn in an ingress rule")
		}
		if strings.Trim(p.FQDN, "-.*abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			c.add(path+".fqdn", p.FQDN, "letters, digits, '-', '.' and '*' only")
		}
	}
	if n := p.Namespaces; n != nil {
		switch {
		case n.Match != "" && len(n.SameLabels) > 0:
			c.given(path+".namespaces", "match and sameLabels", "either match or sameLabels")
		case n.Match == "" && len(n.SameLabels) == 0:
			c.given(path+".namespaces", "nothing", "match or sameLabels")
		case n.Match != "" && n.Match != "Self":
			c.add(path+".namespaces.match", n.Match, "Self")
		}
		for i, key := range n.SameLabels {
			c.errs = append(c.errs, selectors.CheckLabelKey(key, at(path+".namespaces.sameLabels", i))...)
		}
	}
	if p.IPBlock != nil {
		c.errs = append(c.errs, translate.CheckIPBlock(p.IPBlock, path+".ipBlock")...)
	}
	c.selectors(path, p.PodSelector, p.NamespaceSelector, p.ExternalEntitySelector, p.NodeSelector)
}
