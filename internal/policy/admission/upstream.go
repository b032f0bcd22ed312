package admission

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/translate"
)

// Limits of what the upstream kinds (the kinds of policy.networking.k8s.io) hold.
const (
	MinUpstreamPriority = 0.0
	MaxUpstreamPriority = 1000.0
	// BaselineName is the name of the only BaselineAdminNetworkPolicy.
	BaselineName = "default"

	maxUpstreamRuleName = 100
)

// ValidateUpstream returns what is wrong with a policy of an upstream kind, with the fields as its
// kind names them: what the schema of its CRD refuses as well, and what no schema checks
// (selectors, protocols, ranges of ports, domain names). Errors come in the order of the fields.
// What was written for a later version of the API is not an error: see Policy.Warnings.
func ValidateUpstream(p *policy.Policy) []policy.FieldError {
	c := &upstreamChecker{kind: p.Kind}
	if p.Kind == policy.BaselineAdminNetworkPolicy && p.Name != BaselineName {
		c.add("metadata.name", p.Name, BaselineName+": there is one BaselineAdminNetworkPolicy")
	}
	if p.Kind != policy.BaselineAdminNetworkPolicy && !(p.Priority >= MinUpstreamPriority && p.Priority <= MaxUpstreamPriority) {
		c.add("spec.priority", strconv.FormatFloat(p.Priority, 'g', -1, 64), "a number from 0 to 1000")
	}
	if len(p.AppliedTo) == 0 {
		c.given("spec.subject", "nothing", "exactly one of namespaces, pods")
	}
	for _, a := range p.AppliedTo {
		c.workloads(a.NamespaceSelector, a.PodSelector, "spec.subject")
	}
	for i := range p.Ingress {
		c.rule(policy.Ingress, &p.Ingress[i], at("spec.ingress", i))
	}
	for i := range p.Egress {
		c.rule(policy.Egress, &p.Egress[i], at("spec.egress", i))
	}
	return c.errs
}

type upstreamChecker struct {
	checker
	kind policy.PolicyKind
}

// workloads checks the selectors of a subject or peer that are written as namespaces or as pods.
func (c *upstreamChecker) workloads(namespaces, pods *policy.Selector, path string) {
	if pods == nil {
		c.errs = append(c.errs, selectors.Check(namespaces, path+".namespaces")...)
		return
	}
	c.errs = append(c.errs, selectors.Check(namespaces, path+".pods.namespaceSelector")...)
	c.errs = append(c.errs, selectors.Check(pods, path+".pods.podSelector")...)
}

func (c *upstreamChecker) rule(d policy.Direction, r *policy.Rule, path string) {
	if len(r.Name) > maxUpstreamRuleName {
		c.add(path+".name", r.Name, "at most 100 characters")
	}
	side, portless := path+".from", ""
	if d == policy.Egress {
		side = path + ".to"
	}
	for i := range r.Peers {
		if kind := c.peer(&r.Peers[i], at(side, i)); kind != "" {
			portless = kind
		}
	}
	for i := range r.Ports {
		c.port(&r.Ports[i], i, portless, path)
	}
}

// peer checks one peer and returns its kind if it has no named ports.
func (c *upstreamChecker) peer(p *policy.Peer, path string) (portless string) {
	switch {
	case p.NodeSelector != nil:
		c.errs = append(c.errs, selectors.Check(p.NodeSelector, path+".nodes")...)
		return "nodes"
	case len(p.Networks) > 0:
		for i, n := range p.Networks {
			if prefix, err := netip.ParsePrefix(n); err != nil || prefix.Addr().Is4In6() {
				c.add(at(path+".networks", i), n, "a CIDR, for example 10.0.0.0/8 or 2001:db8::/32")
			}
		}
		return "networks"
	case len(p.DomainNames) > 0:
		for i, n := range p.DomainNames {
			if !validDomainName(n) {
				c.add(at(path+".domainNames", i), n, "a domain name, for example example.com or *.example.com")
			}
		}
		return "domainNames"
	}
	c.workloads(p.NamespaceSelector, p.PodSelector, path)
	return ""
}

// port checks one entry of ports, in ClusterNetworkPolicies protocols.
func (c *upstreamChecker) port(p *policy.Port, i int, portless, path string) {
	named := p.Port != nil && p.Port.Name != ""
	list, field := at(path+".ports", i), ".portNumber"
	switch {
	case c.kind == policy.ClusterNetworkPolicy && named:
		list, field = at(path+".protocols", i), ".destinationNamedPort"
	case c.kind == policy.ClusterNetworkPolicy:
		list, field = at(path+".protocols", i), "."+strings.ToLower(string(p.Protocol))+".destinationPort"
	case named:
		field = ".namedPort"
	case p.EndPort != nil:
		field = ".portRange"
	}
	if named && portless != "" {
		c.add(list+field, p.Port.Name, "no named port in a rule whose peers are "+portless+": these have none")
	}
	for _, e := range translate.CheckPort(p, list) {
		switch {
		case strings.HasSuffix(e.Field, ".protocol"):
			e.Field = list + field + ".protocol"
		case strings.HasSuffix(e.Field, ".endPort"):
			e.Field = list + field + c.inRange(".end")
		case p.EndPort != nil:
			e.Field = list + field + c.inRange(".start")
		case c.kind == policy.ClusterNetworkPolicy:
			e.Field = list + field + ".number"
		default:
			e.Field = list + field + ".port"
		}
		c.errs = append(c.errs, e)
	}
}

// inRange names a field of a range of ports.
func (c *upstreamChecker) inRange(field string) string {
	if c.kind == policy.ClusterNetworkPolicy {
		return ".range" + field
	}
	return field
}

// validDomainName reports whether a name, or "*." and a name, is one with at least two labels. A
// dot may end it.
func validDomainName(name string) bool {
	labels := strings.Split(strings.TrimSuffix(strings.TrimPrefix(name, "*."), "."), ".")
	for _, l := range labels {
		inner := strings.Trim(l, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
		if l == "" || inner != "" || strings.Contains("-_", l[:1]) || strings.Contains("-_", l[len(l)-1:]) {
			return false
		}
	}
	return len(labels) > 1
}
