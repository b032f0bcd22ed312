package admission

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
)

func peersOf(cidrs ...string) (out []policy.Peer) {
	for _, text := range cidrs {
		cidr, except, _ := strings.Cut(text, " but ")
		b := &policy.IPBlock{CIDR: cidr}
		if except != "" {
			b.Except = strings.Split(except, ",")
		}
		out = append(out, policy.Peer{IPBlock: b})
	}
	return out
}

func portsOf(numbers ...int32) (out []policy.Port) {
	for _, n := range numbers {
		out = append(out, policy.Port{Protocol: policy.TCP, Port: &policy.PortRef{Number: n}})
	}
	return out
}

func fieldsOf(errs []policy.FieldError) string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Field)
	}
	return strings.Join(out, " ")
}

func TestWide(t *testing.T) {
	t.Parallel()
	halves := make([]string, 0, 256)
	for i := range 256 {
		halves = append(halves, netip.PrefixFrom(netip.AddrFrom4([4]byte{8, byte(i), 0, 0}), 16).String())
	}
	for name, c := range map[string]struct {
		blocks []string
		want   bool
	}{
		"all":                       {[]string{"0.0.0.0/0"}, true},
		"in halves":                 {[]string{"0.0.0.0/1", "128.0.0.0/1"}, true},
		"in many pieces":            {halves, true},
		"one piece less":            {halves[1:], false},
		"the same piece many times": {slices.Repeat([]string{"8.8.0.0/16"}, 300), false},
		"all but a company's":       {[]string{"0.0.0.0/0 but 10.0.0.0/8,192.168.0.0/16"}, true},
		"all but all":               {[]string{"0.0.0.0/0 but 0.0.0.0/1,128.0.0.0/1"}, false},
		"what one block leaves out and another has": {[]string{"0.0.0.0/0 but 0.0.0.0/1,128.0.0.0/1", "8.0.0.0/8"}, true},
		"private":                    {[]string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"}, false},
		"multicast and the reserved": {[]string{"224.0.0.0/3"}, false},
		"an office":                  {[]string{"198.51.100.0/24"}, false},
		"one address":                {[]string{"203.0.113.7/32"}, false},
		"all of IPv6":                {[]string{"::/0"}, true},
		"what is global of IPv6":     {[]string{"2000::/3"}, true},
		"unique local":               {[]string{"fc00::/7"}, false},
		"a site of IPv6":             {[]string{"2001:db8:1::/48"}, false},
		"a provider of IPv6":         {[]string{"2a00::/12"}, false},
	} {
		four, six := blocksOf(peersOf(c.blocks...))
		if got := Wide(four) || Wide(six); got != c.want {
			t.Errorf("%s: wide is %v, want %v", name, got, c.want)
		}
	}
}

func TestExposure(t *testing.T) {
	t.Parallel()
	machines, pods := []policy.AppliedTo{{ExternalEntitySelector: &policy.Selector{}}}, []policy.AppliedTo{{PodSelector: &policy.Selector{}}}
	end := int32(4000)
	for name, c := range map[string]struct {
		to    []policy.AppliedTo
		rule  policy.Rule
		reach string // of management and others
	}{
		"ssh":                     {machines, policy.Rule{Action: policy.Allow, Peers: peersOf("0.0.0.0/0"), Ports: portsOf(22)}, "management"},
		"remote desktop":          {machines, policy.Rule{Action: policy.Allow, Peers: peersOf("::/0"), Ports: portsOf(3389)}, "management"},
		"ssh to Pods":             {pods, policy.Rule{Action: policy.Allow, Peers: peersOf("0.0.0.0/0"), Ports: portsOf(22)}, "management"},
		"ssh and a web server":    {machines, policy.Rule{Action: policy.Allow, Peers: peersOf("0.0.0.0/0"), Ports: portsOf(22, 443)}, "management others"},
		"a web server":            {machines, policy.Rule{Action: policy.Allow, Peers: peersOf("0.0.0.0/0"), Ports: portsOf(443)}, "others"},
		"a range":                 {machines, policy.Rule{Action: policy.Allow, Peers: peersOf("0.0.0.0/0"), Ports: []policy.Port{{Port: &policy.PortRef{Number: 3000}, EndPort: &end}}}, "management others"},
		"everything":              {machines, policy.Rule{Action: policy.Allow, Peers: peersOf("0.0.0.0/0")}, "management others"},
		"everything of everybody": {machines, policy.Rule{Action: policy.Allow}, "management others"},
		"everything to Pods":      {pods, policy.Rule{Action: policy.Allow}, ""},
		"udp 22":                  {machines, policy.Rule{Action: policy.Allow, Ports: []policy.Port{{Protocol: policy.UDP, Port: &policy.PortRef{Number: 22}}}}, "others"},
		"all of tcp":              {machines, policy.Rule{Action: policy.Allow, Ports: []policy.Port{{Protocol: policy.TCP}}}, "management others"},
		"ping":                    {machines, policy.Rule{Action: policy.Allow, Protocols: []policy.RuleProtocol{{ICMP: &policy.ICMPMatch{}}}}, "others"},
		"from an office":          {machines, policy.Rule{Action: policy.Allow, Peers: peersOf("198.51.100.0/24"), Ports: portsOf(22)}, ""},
		"dropped":                 {machines, policy.Rule{Action: policy.Drop, Peers: peersOf("0.0.0.0/0"), Ports: portsOf(22)}, ""},
		"of nobody":               {machines, policy.Rule{Action: policy.Allow, NoPeers: true, Ports: portsOf(22)}, ""},
	} {
		p := &policy.Policy{AppliedTo: c.to, Ingress: []policy.Rule{c.rule}, Egress: []policy.Rule{{Action: policy.Allow}}}
		var got []string
		if errs := OpensManagement(p); fieldsOf(errs) == "spec.ingress[0]" {
			got = append(got, "management")
		}
		if errs := OpensToInternet(p); fieldsOf(errs) == "spec.ingress[0]" {
			got = append(got, "others")
		}
		if strings.Join(got, " ") != c.reach {
			t.Errorf("%s: got %q, want %q", name, got, c.reach)
		}
	}
}

func TestOneFamily(t *testing.T) {
	t.Parallel()
	drop := func(ports []policy.Port, cidrs ...string) policy.Rule {
		return policy.Rule{Action: policy.Drop, Peers: peersOf(cidrs...), Ports: ports}
	}
	for name, c := range map[string]struct {
		rules []policy.Rule
		want  string
	}{
		"IPv4 alone":                   {[]policy.Rule{drop(portsOf(22), "0.0.0.0/0")}, "spec.ingress[0]"},
		"with exceptions":              {[]policy.Rule{drop(nil, "0.0.0.0/0 but 10.0.0.0/8")}, "spec.ingress[0]"},
		"in halves":                    {[]policy.Rule{drop(nil, "0.0.0.0/1", "128.0.0.0/1")}, "spec.ingress[0]"},
		"IPv6 alone":                   {[]policy.Rule{drop(nil, "::/0")}, "spec.ingress[0]"},
		"both":                         {[]policy.Rule{drop(nil, "0.0.0.0/0", "::/0")}, ""},
		"both in two rules":            {[]policy.Rule{drop(portsOf(22), "0.0.0.0/0"), drop(portsOf(22), "::/0")}, ""},
		"the other of another port":    {[]policy.Rule{drop(portsOf(22), "0.0.0.0/0"), drop(portsOf(23), "::/0")}, "spec.ingress[0] spec.ingress[1]"},
		"the other of everything":      {[]policy.Rule{drop(portsOf(22), "0.0.0.0/0"), drop(nil, "::/0")}, "spec.ingress[1]"},
		"all peers":                    {[]policy.Rule{drop(nil, "0.0.0.0/0"), {Action: policy.Drop}}, ""},
		"an attacker":                  {[]policy.Rule{drop(nil, "203.0.113.0/24")}, ""},
		"a group that may have both":   {[]policy.Rule{{Action: policy.Drop, Peers: append(peersOf("0.0.0.0/0"), policy.Peer{Group: "g"})}}, ""},
		"an Allow rule, which closes":  {[]policy.Rule{{Action: policy.Allow, Peers: peersOf("0.0.0.0/0")}}, ""},
		"an Allow rule does not close": {[]policy.Rule{drop(nil, "0.0.0.0/0"), {Action: policy.Allow, Peers: peersOf("::/0")}}, "spec.ingress[0]"},
	} {
		if got := fieldsOf(OneFamily(&policy.Policy{Ingress: c.rules})); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if got := fieldsOf(OneFamily(&policy.Policy{Egress: c.rules})); got != strings.ReplaceAll(c.want, "ingress", "egress") {
			t.Errorf("%s, outbound: got %q, want %q", name, got, c.want)
		}
	}
}
