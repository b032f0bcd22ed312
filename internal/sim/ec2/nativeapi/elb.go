package nativeapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
	"github.com/nephele-io/nephele/internal/sim/iam"
	"github.com/nephele-io/nephele/internal/sim/native"
)

func balancerActions() map[string]Action {
	return map[string]Action{
		"DescribeLoadBalancers":         describeLoadBalancers,
		"DescribeListeners":             describeListeners,
		"DescribeTargetGroups":          describeTargetGroups,
		"DescribeTargetGroupAttributes": describeTargetGroupAttributes,
		"DescribeTargetHealth":          describeTargetHealth,
		"DescribeTags":                  describeBalancerTags,
		"AddTags":                       addBalancerTags,
		"RemoveTags":                    removeBalancerTags,
		"SetSecurityGroups":             setSecurityGroups,
	}
}

// balancerPaging: "PageSize: The maximum number of results to return with this call. Valid Range:
// Minimum value of 1. Maximum value of 400."
var balancerPaging = paging{"Marker", "PageSize", 1, 400, 400}

// maxDescribedTags is how many ARNs one DescribeTags takes ("You can specify up to 20 resources in
// a single call").
const maxDescribedTags = 20

func balancerKinds() []native.Kind {
	return []native.Kind{native.AppBalancer, native.NetBalancer, native.GatewayBalancer}
}

func badValue(format string, args ...any) error { return refuse("ValidationError", format, args...) }

// balancerRefusal gives the world's refusals the names of Elastic Load Balancing. All of them have
// the status 400 there.
func balancerRefusal(err error) error {
	return translate(err, map[string]string{
		"ServiceNotFound": "LoadBalancerNotFound", "ServiceInvalid": "InvalidConfigurationRequest", "ServiceBusy": "InvalidConfigurationRequest",
		"DifferentNetworks": "InvalidConfigurationRequest", "TagInvalid": "ValidationError",
		"InvalidGroup.NotFound": "InvalidSecurityGroup", "InvalidGroupId.Malformed": "InvalidSecurityGroup",
		"SecurityGroupsPerInterfaceLimitExceeded": "InvalidConfigurationRequest",
	})
}

// balancerPermissions: Describe actions know no resources.
func (c *Call) balancerPermissions() []iam.Request {
	if strings.HasPrefix(c.Action, "Describe") {
		return []iam.Request{c.ask("*", nil, nil)}
	}
	if arn := c.Params.String("LoadBalancerArn"); arn != "" {
		return []iam.Request{c.askByARN(arn, nil, balancerKinds()...)}
	}
	var out []iam.Request
	for _, arn := range c.Params.Strings("ResourceArns.member") {
		out = append(out, c.askByARN(arn, namedTags(c.Params, "Tags.member"), balancerKinds()...))
	}
	if len(out) == 0 {
		out = append(out, c.ask("*", nil, nil))
	}
	return out
}

// balancerByARN is the balancer that a parameter LoadBalancerArn names.
func (c *Call) balancerByARN() (native.Service, error) {
	arn := c.Params.String("LoadBalancerArn")
	s, ok := c.byARN(arn, balancerKinds()...)
	if !ok {
		return s, refuse("LoadBalancerNotFound", "Load balancer '%s' not found", arn)
	}
	return s, nil
}

func describeLoadBalancers(c *Call) (Answer, error) {
	all := c.Region.Services().List(balancerKinds()...)
	for _, by := range []struct {
		key string
		is  func(native.Service) string
	}{
		{"LoadBalancerArns.member", func(s native.Service) string { return s.ARN() }},
		{"Names.member", func(s native.Service) string { return s.Display() }},
	} {
		wanted := c.Params.Strings(by.key)
		if len(wanted) == 0 {
			continue
		}
		all = slices.DeleteFunc(all, func(s native.Service) bool { return !slices.Contains(wanted, by.is(s)) })
		for _, w := range wanted {
			if !slices.ContainsFunc(all, func(s native.Service) bool { return by.is(s) == w }) {
				return Answer{}, refuse("LoadBalancerNotFound", "Load balancers '[%s]' not found", w)
			}
		}
	}
	p, err := page(c, all, func(s native.Service) string { return s.Name }, balancerPaging, badValue)
	if err != nil {
		return Answer{}, err
	}
	zones, err := c.zones()
	if err != nil {
		return Answer{}, err
	}
	nics, err := c.interfaces()
	if err != nil {
		return Answer{}, err
	}
	item := func(s native.Service) []wire.Element {
		scheme, kind := "internal", map[native.Kind]string{native.AppBalancer: "application", native.NetBalancer: "network", native.GatewayBalancer: "gateway"}[s.Kind]
		if s.Public {
			scheme = "internet-facing"
		}
		return []wire.Element{
			wire.Text("LoadBalancerArn", s.ARN()), wire.Text("LoadBalancerName", s.Display()), wire.Text("DNSName", s.HostName()),
			wire.Text("CanonicalHostedZoneId", "Z32O12XQLNTSW2"), wire.Time("CreatedTime", s.Created), wire.Text("Scheme", scheme),
			wire.Text("VpcId", s.VPCID), wire.Node("State", wire.Text("Code", "active")), wire.Text("Type", kind),
			wire.Text("IpAddressType", "ipv4"), texts("SecurityGroups", "member", s.Groups),
			list("AvailabilityZones", "member", s.Subnets, func(subnet string) []wire.Element {
				return []wire.Element{wire.Text("ZoneName", zones[subnet].Name), wire.Text("SubnetId", subnet),
					list("LoadBalancerAddresses", "member", s.Nodes, func(n native.Node) []wire.Element {
						// Only fixed addresses of network load balancers are reported here.
						if n.SubnetID != subnet || s.Kind != native.NetBalancer || !n.Addr.IsValid() {
							return nil
						}
						nic := nics[n.NIC]
						return []wire.Element{wire.Addr("PrivateIPv4Address", nic.PrimaryIP().Addr)}
					})}
			}),
		}
	}
	return Answer{XML: []wire.Element{list("LoadBalancers", "member", p.Items, item), wire.Text("NextMarker", p.Next)}}, nil
}

// listened is a listener with its balancer.
type listened struct {
	native.Listener
	of native.Service
}

func describeListeners(c *Call) (Answer, error) {
	arn, wanted := c.Params.String("LoadBalancerArn"), c.Params.Strings("ListenerArns.member")
	if (arn == "") == (len(wanted) == 0) {
		return Answer{}, badValue("You must specify either listener ARNs or a load balancer ARN")
	}
	var all []listened
	for _, s := range c.Region.Services().List(balancerKinds()...) {
		for _, l := range s.Listeners {
			if s.ARN() == arn || slices.Contains(wanted, s.ListenerARN(l)) {
				all = append(all, listened{l, s})
			}
		}
	}
	if arn != "" {
		if _, err := c.balancerByARN(); err != nil {
			return Answer{}, err
		}
	}
	if len(all) < len(wanted) {
		return Answer{}, refuse("ListenerNotFound", "One or more listeners not found")
	}
	p, err := page(c, all, func(l listened) string { return l.of.ListenerARN(l.Listener) }, balancerPaging, badValue)
	if err != nil {
		return Answer{}, err
	}
	return Answer{XML: []wire.Element{list("Listeners", "member", p.Items, func(l listened) []wire.Element {
		group := native.TargetGroup{Name: l.Target, Account: l.of.Account, Region: l.of.Region}
		target := wire.Text("TargetGroupArn", group.ARN())
		return []wire.Element{
			wire.Text("ListenerArn", l.of.ListenerARN(l.Listener)), wire.Text("LoadBalancerArn", l.of.ARN()),
			wire.Int("Port", l.Port), wire.Text("Protocol", l.Protocol),
			wire.Node("DefaultActions", wire.Node("member", wire.Text("Type", "forward"), target, wire.Int("Order", 1),
				wire.Node("ForwardConfig", wire.Node("TargetGroups", wire.Node("member", target, wire.Int("Weight", 1)))))),
		}
	}), wire.Text("NextMarker", p.Next)}}, nil
}

// feeding are the ARNs of the balancers that hand traffic to each target group.
func (c *Call) feeding() map[string][]string {
	out := map[string][]string{}
	for _, s := range c.Region.Services().List(balancerKinds()...) {
		for _, l := range s.Listeners {
			if !slices.Contains(out[l.Target], s.ARN()) {
				out[l.Target] = append(out[l.Target], s.ARN())
			}
		}
	}
	return out
}

func describeTargetGroups(c *Call) (Answer, error) {
	all, feeding := c.Region.Services().TargetGroups(), c.feeding()
	if wanted := c.Params.Strings("TargetGroupArns.member"); len(wanted) > 0 {
		all = slices.DeleteFunc(all, func(g native.TargetGroup) bool { return !slices.Contains(wanted, g.ARN()) })
		if len(all) < len(wanted) {
			return Answer{}, refuse("TargetGroupNotFound", "One or more target groups not found")
		}
	}
	if arn := c.Params.String("LoadBalancerArn"); arn != "" {
		if _, err := c.balancerByARN(); err != nil {
			return Answer{}, err
		}
		all = slices.DeleteFunc(all, func(g native.TargetGroup) bool { return !slices.Contains(feeding[g.Name], arn) })
	}
	p, err := page(c, all, func(g native.TargetGroup) string { return g.Name }, balancerPaging, badValue)
	if err != nil {
		return Answer{}, err
	}
	return Answer{XML: []wire.Element{list("TargetGroups", "member", p.Items, func(g native.TargetGroup) []wire.Element {
		health := wire.Text("HealthCheckPort", "traffic-port")
		if g.HealthPort != 0 {
			health = wire.Int("HealthCheckPort", g.HealthPort)
		}
		name, _, _ := strings.Cut(g.Name, "/")
		return []wire.Element{
			wire.Text("TargetGroupArn", g.ARN()), wire.Text("TargetGroupName", name), wire.Text("Protocol", g.Protocol),
			wire.Int("Port", g.Port), wire.Text("VpcId", g.VPCID), wire.Text("TargetType", g.Type), wire.Bool("HealthCheckEnabled", true),
			wire.Text("HealthCheckProtocol", g.HealthProtocolOf()), health, wire.Text("IpAddressType", "ipv4"),
			texts("LoadBalancerArns", "member", feeding[g.Name]),
		}
	}), wire.Text("NextMarker", p.Next)}}, nil
}

func (c *Call) targetGroup() (native.TargetGroup, error) {
	arn := c.Params.String("TargetGroupArn")
	for _, g := range c.Region.Services().TargetGroups() {
		if g.ARN() == arn {
			return g, nil
		}
	}
	return native.TargetGroup{}, refuse("TargetGroupNotFound", "One or more target groups not found")
}

func describeTargetGroupAttributes(c *Call) (Answer, error) {
	g, err := c.targetGroup()
	if err != nil {
		return Answer{}, err
	}
	attributes := [][2]string{{"deregistration_delay.timeout_seconds", "300"}, {"stickiness.enabled", "false"}}
	if g.Protocol != "HTTP" && g.Protocol != "HTTPS" {
		preserved := "false"
		if g.Preserves(native.NetBalancer) {
			preserved = "true"
		}
		attributes = append(attributes, [2]string{"preserve_client_ip.enabled", preserved}, [2]string{"proxy_protocol_v2.enabled", "false"})
	}
	return Answer{XML: []wire.Element{list("Attributes", "member", attributes, func(a [2]string) []wire.Element {
		return []wire.Element{wire.Text("Key", a[0]), wire.Text("Value", a[1])}
	})}}, nil
}

func describeTargetHealth(c *Call) (Answer, error) {
	g, err := c.targetGroup()
	if err != nil {
		return Answer{}, err
	}
	states, err := c.Region.Services().Health(g.Name)
	if err != nil {
		return Answer{}, balancerRefusal(err)
	}
	return Answer{XML: []wire.Element{list("TargetHealthDescriptions", "member", states, func(h native.TargetHealth) []wire.Element {
		reason := map[string]string{"unhealthy": "Target.Timeout", "unused": "Target.NotInUse"}[h.State]
		return []wire.Element{
			wire.Node("Target", wire.Text("Id", h.Target.ID), wire.Int("Port", h.Target.Port)), wire.Int("HealthCheckPort", h.HealthPort),
			wire.Node("TargetHealth", wire.Text("State", h.State), wire.Text("Reason", reason)),
		}
	})}}, nil
}

// tagged is what an ARN of Elastic Load Balancing names.
type tagged struct {
	arn  string
	tags map[string]string
	ref  native.Ref // of a balancer; zero for a target group
}

func (c *Call) taggedBalancers() ([]tagged, error) {
	arns := c.Params.Strings("ResourceArns.member")
	if len(arns) == 0 {
		return nil, badValue("1 validation error detected: Value null at 'resourceArns' failed to satisfy constraint: Member must not be null")
	}
	if len(arns) > maxDescribedTags {
		return nil, badValue("Cannot have more than %d resources described", maxDescribedTags)
	}
	groups, balancers := c.Region.Services().TargetGroups(), map[string]native.Service{}
	for _, s := range c.Region.Services().List(balancerKinds()...) {
		balancers[s.ARN()] = s
	}
	var out []tagged
	for _, arn := range arns {
		s, ok := balancers[arn]
		at := slices.IndexFunc(groups, func(g native.TargetGroup) bool { return g.ARN() == arn })
		switch {
		case ok:
			out = append(out, tagged{arn, s.Tags, s.Ref()})
		case at >= 0:
			out = append(out, tagged{arn: arn, tags: groups[at].Tags})
		case strings.Contains(arn, ":targetgroup/"):
			return nil, refuse("TargetGroupNotFound", "One or more target groups not found")
		default:
			return nil, refuse("LoadBalancerNotFound", "Load balancer '%s' not found", arn)
		}
	}
	return out, nil
}

func describeBalancerTags(c *Call) (Answer, error) {
	all, err := c.taggedBalancers()
	return Answer{XML: []wire.Element{list("TagDescriptions", "member", all, func(t tagged) []wire.Element {
		return []wire.Element{wire.Text("ResourceArn", t.arn), tagList("Tags", "member", t.tags)}
	})}}, err
}

func addBalancerTags(c *Call) (Answer, error) {
	return Answer{}, c.retag(requestTags(c.Params, "Tags.member"), nil)
}

func removeBalancerTags(c *Call) (Answer, error) {
	return Answer{}, c.retag(nil, c.Params.Strings("TagKeys.member"))
}

func (c *Call) retag(set map[string]string, remove []string) error {
	all, err := c.taggedBalancers()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.ref == (native.Ref{}) {
			return withStatus(http.StatusBadRequest, "OperationNotPermitted", "The simulator changes no tags of target groups")
		}
		if err := c.Region.Services().SetTags(c.Action, t.ref, set, remove); err != nil {
			return balancerRefusal(err)
		}
	}
	return nil
}

// setSecurityGroups replaces the groups of a balancer. One that was made without groups cannot get
// any: "You can't perform this operation on a Network Load Balancer unless you specified a security
// group for the load balancer when you created it."
func setSecurityGroups(c *Call) (Answer, error) {
	s, err := c.balancerByARN()
	if err != nil {
		return Answer{}, err
	}
	if len(s.Groups) == 0 {
		return Answer{}, refuse("InvalidConfigurationRequest", "The load balancer '%s' was made without security groups", cmp.Or(s.Display(), s.Name))
	}
	s, err = c.Region.Services().SetGroups(c.Action, s.Ref(), c.Params.Strings("SecurityGroups.member"))
	return Answer{XML: []wire.Element{texts("SecurityGroupIds", "member", s.Groups)}}, balancerRefusal(err)
}
