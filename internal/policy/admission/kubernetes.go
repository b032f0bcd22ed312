package admission

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/translate"
)

// maxPortName is the length of the longest name of a port, RFC 6335.
const maxPortName = 15

// ValidateKubernetes returns what the API server refuses in a Kubernetes NetworkPolicy (HTTP 422).
// It is for manifests that no API server has seen, or that one has stored: then it does not refuse
// what API servers before 1.36 took, and later ones leave as it is. Errors come in the order of the
// fields, errors of policyTypes first.
func ValidateKubernetes(p *policy.Policy, stored bool) []policy.FieldError {
	c := &checker{stored: stored}
	for _, other := range p.OtherTypes {
		c.add("spec.policyTypes", other, "Ingress or Egress")
	}
	if n := len(p.PolicyTypes) + len(p.OtherTypes); n > 2 {
		c.add("spec.policyTypes", strconv.Itoa(n)+" entries", "at most two entries, Ingress and Egress")
	}
	for i := range p.AppliedTo {
		c.errs = append(c.errs, selectors.Check(p.AppliedTo[i].PodSelector, "spec.podSelector")...)
	}
	eachRule(p, func(path string, r *policy.Rule) {
		side := path + ".to"
		if strings.HasPrefix(path, "spec.ingress") {
			side = path + ".from"
		}
		for i := range r.Ports {
			c.kubernetesPort(&r.Ports[i], at(path+".ports", i))
		}
		for i := range r.Peers {
			c.kubernetesPeer(&r.Peers[i], at(side, i))
		}
	})
	return c.errs
}

func (c *checker) kubernetesPort(p *policy.Port, path string) {
	if p.Protocol == "" {
		c.add(path+".protocol", "", "one of TCP, UDP, SCTP")
	}
	errs := translate.CheckPort(p, path)
	c.errs = append(c.errs, errs...)
	switch {
	case p.Port == nil || len(errs) > 0:
	case *p.Port == policy.PortRef{}: // "", which is neither a number nor a name
		c.add(path+".port", "", "a number from 1 to 65535, or a name; leave the field out for all ports")
	case p.Port.Name != "" && !validPortName(p.Port.Name):
		c.add(path+".port", p.Port.Name, "a number without quotes, or a name: at most 15 lower case letters, digits and '-', with a letter, "+
			"without '-' at the ends or '--'")
	}
}

// validPortName reports whether a name can be that of a port, as Kubernetes has it.
func validPortName(name string) bool {
	return len(name) <= maxPortName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" &&
		strings.Trim(name, "0123456789-") != "" && !strings.Contains(name, "--") &&
		!strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-")
}

func (c *checker) kubernetesPeer(p *policy.Peer, path string) {
	selectors := fieldNames([]setField{{p.PodSelector != nil, "podSelector"}, {p.NamespaceSelector != nil, "namespaceSelector"}})
	switch {
	case p.IPBlock == nil && selectors == "":
		c.given(path, "nothing", "podSelector, namespaceSelector or ipBlock")
	case p.IPBlock != nil && selectors != "":
		c.given(path, selectors+" and ipBlock", "either ipBlock or selectors; two entries match both")
	}
	c.selectors(path, p.PodSelector, p.NamespaceSelector, nil, nil)
	if p.IPBlock == nil {
		return
	}
	path += ".ipBlock"
	c.errs = append(c.errs, translate.CheckIPBlock(p.IPBlock, path)...)
	c.noHostBits(p.IPBlock.CIDR, path+".cidr")
	for i, cidr := range p.IPBlock.Except {
		c.noHostBits(cidr, at(path+".except", i))
	}
}

// noHostBits refuses what the API server refuses since 1.36 because it could mean two things.
func (c *checker) noHostBits(cidr, path string) {
	if p, err := netip.ParsePrefix(cidr); err == nil && p != p.Masked() && !c.stored {
		c.add(path, cidr, "no bits after the prefix: "+p.Masked().String()+" or "+netip.PrefixFrom(p.Addr(), p.Addr().BitLen()).String())
	}
}
