package native

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// MaxTags is how many tags a service may have.
const MaxTags = 50

// CheckTag refuses a tag that the services do not take: they all know letters, digits, spaces and
// _ . : / = + - @ only, unlike EC2, keys of up to 128 and values of up to 256 characters (RDS and
// ELB API references, Tag).
func CheckTag(key, value string) error {
	switch {
	case key == "" || len([]rune(key)) > 128:
		return fmt.Errorf("tag keys have 1 to 128 characters, not %q", key)
	case len([]rune(value)) > 256:
		return fmt.Errorf("the value of tag %q has more than 256 characters", key)
	case strings.HasPrefix(strings.ToLower(key), "aws:"):
		return fmt.Errorf("tag keys that begin with aws: are reserved, found %q", key)
	}
	for _, text := range []string{key, value} {
		if i := strings.IndexFunc(text, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsSpace(r) && !strings.ContainsRune("_.:/=+-@", r)
		}); i >= 0 {
			return fmt.Errorf("tag %q has the character %q, which tags of this service cannot have", key, []rune(text[i:])[0])
		}
	}
	return nil
}

var (
	identifier = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]{0,62}$`)
	balancer   = regexp.MustCompile(`^(app|net|gwy)/[a-zA-Z0-9-]{1,32}/[0-9a-f]{16}$`)
	groupName  = regexp.MustCompile(`^[a-zA-Z0-9-]{1,32}/[0-9a-f]{16}$`)
	function   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	shortID    = regexp.MustCompile(`^(vpce|fs|fsmt)-([0-9a-f]{8}|[0-9a-f]{17})$`)
)

// Check refuses a service that no cloud can have, as far as it can be told by itself.
func (s *Service) Check() error {
	names := map[Kind]*regexp.Regexp{
		Database: identifier, DatabaseCluster: identifier, Cache: identifier, ReplicationGroup: identifier,
		AppBalancer: balancer, NetBalancer: balancer, GatewayBalancer: balancer,
		Endpoint: shortID, FileSystem: shortID, MountTarget: shortID, Function: function,
	}
	switch {
	case names[s.Kind] == nil:
		return fmt.Errorf("service %q: there is no kind %q", s.Name, s.Kind)
	case !names[s.Kind].MatchString(s.Name):
		return fmt.Errorf("%s %q: the name is not of the form that its API knows", s.Kind, s.Name)
	case s.VPCID == "" && s.Kind != Function && s.Kind != FileSystem:
		return fmt.Errorf("%s %s: expected a VPC", s.Kind, s.Name)
	case s.Kind == AppBalancer && len(s.Groups) == 0:
		return fmt.Errorf("%s %s: expected at least one security group", s.Kind, s.Name)
	case s.Kind == GatewayBalancer && len(s.Groups) > 0:
		return fmt.Errorf("%s %s: it can have no security group", s.Kind, s.Name)
	case len(s.Listeners) > 0 && !s.Kind.Balances():
		return fmt.Errorf("%s %s: only balancers have listeners", s.Kind, s.Name)
	}
	for _, n := range s.Nodes {
		if !slices.Contains(s.Subnets, n.SubnetID) {
			return fmt.Errorf("%s %s: it has an interface in %s, which is none of its subnets", s.Kind, s.Name, n.SubnetID)
		}
	}
	return nil
}

// Check refuses a target group that no cloud can have.
func (g *TargetGroup) Check() error {
	switch {
	case !groupName.MatchString(g.Name):
		return fmt.Errorf("target group %q: expected NAME/HEX", g.Name)
	case g.Type != "instance" && g.Type != "ip":
		return fmt.Errorf("target group %s: expected the type instance or ip, not %q", g.Name, g.Type)
	case !Carries(g.Protocol, 6) && !Carries(g.Protocol, 17):
		return fmt.Errorf("target group %s: there is no protocol %q", g.Name, g.Protocol)
	case g.Port < 1 || g.Port > 65535:
		return fmt.Errorf("target group %s: expected a port, not %d", g.Name, g.Port)
	}
	return nil
}

// CheckAll checks services and target groups together: each once, members with their parents,
// listeners with their target groups, subnets and interfaces that are there.
func CheckAll(services []Service, groups []TargetGroup, inside func(subnet, vpc string) bool, nic func(id string) bool) error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	have, targets := map[Ref]bool{}, map[string]bool{}
	for i := range groups {
		problems = append(problems, groups[i].Check())
		if targets[groups[i].Name] {
			bad("target group %s appears twice", groups[i].Name)
		}
		targets[groups[i].Name] = true
	}
	for i := range services {
		if have[services[i].Ref()] {
			bad("%s %s appears twice", services[i].Kind, services[i].Name)
		}
		have[services[i].Ref()] = true
	}
	for i := range services {
		s := &services[i]
		problems = append(problems, s.Check())
		if s.Parent != "" && !have[s.ParentRef()] {
			bad("%s %s: there is no %s %s", s.Kind, s.Name, s.Kind.ParentKind(), s.Parent)
		}
		for _, l := range s.Listeners {
			if !targets[l.Target] {
				bad("%s %s: there is no target group %s", s.Kind, s.Name, l.Target)
			}
		}
		for _, id := range s.Subnets {
			if !inside(id, s.VPCID) {
				bad("%s %s: there is no subnet %s in VPC %s", s.Kind, s.Name, id, s.VPCID)
			}
		}
		for _, id := range s.NICs() {
			if !nic(id) {
				bad("%s %s: there is no interface %s", s.Kind, s.Name, id)
			}
		}
	}
	return errors.Join(problems...)
}
