package estate

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/defaults"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// This file reads native services of estate YAML. Their interfaces are made by the world.

// yamlService is a service with its members. What a kind has no use for must be left out.
type yamlService struct {
	Kind    native.Kind `json:"kind"`
	Name    string      `json:"name"`
	ID      string      `json:"id"`     // of an endpoint or a file system
	Engine  string      `json:"engine"` // of a database or a cache
	Version string      `json:"version"`
	Class   string      `json:"class"`
	Service string      `json:"service"` // of an endpoint, such as com.amazonaws.eu-west-1.sqs
	Port    int         `json:"port"`
	Subnets []string    `json:"subnets"` // default: all of the VPC
	IP      yamlList    `json:"ip"`      // of the nodes, in their order
	Groups  []string    `json:"groups"`
	// Members are the instances of a cluster or replication group, or the nodes of a cache.
	Members   int      `json:"members"`
	Public    bool     `json:"public"`
	MultiZone bool     `json:"multiZone"`
	Listeners []string `json:"listeners"` // such as "HTTP 80 to web"
	Tags      aws.Tags `json:"tags"`
}

type yamlTargetGroup struct {
	Name             string   `json:"name"`
	Protocol         string   `json:"protocol"`
	Port             int      `json:"port"`
	Targets          []string `json:"targets"` // names of VMs, or addresses; each may end in :PORT
	PreserveClientIP *bool    `json:"preserveClientIP"`
	HealthPort       int      `json:"healthPort"`
	HealthProtocol   string   `json:"healthProtocol"`
	Tags             aws.Tags `json:"tags"`
}

// services makes the target groups and services of a VPC. VMs must be there already.
func (p *place) services() error {
	targets := map[string]string{}
	for i := range p.spec.TargetGroups {
		g, err := p.targetGroup(&p.spec.TargetGroups[i])
		if err != nil {
			return fmt.Errorf("%s.targetGroups[%d]: %w", p.at, i, err)
		}
		targets[p.spec.TargetGroups[i].Name] = g.Name
		p.region.TargetGroups = append(p.region.TargetGroups, g)
	}
	for i := range p.spec.Services {
		if err := p.service(&p.spec.Services[i], targets); err != nil {
			return fmt.Errorf("%s.services[%d]: %w", p.at, i, err)
		}
	}
	return nil
}

func (p *place) targetGroup(y *yamlTargetGroup) (native.TargetGroup, error) {
	g := native.TargetGroup{
		Name: y.Name + "/" + native.Hex(p.vpc.ID, y.Name), Account: p.vpc.Account, Region: p.vpc.Region, VPCID: p.vpc.ID, Type: "ip",
		Protocol: cmp.Or(y.Protocol, "TCP"), Port: y.Port, PreserveClient: y.PreserveClientIP,
		HealthPort: y.HealthPort, HealthProtocol: y.HealthProtocol, Tags: y.Tags,
	}
	instances := 0
	for i, text := range y.Targets {
		t := native.Target{ID: text}
		if name, port, ok := strings.Cut(text, ":"); ok && !strings.Contains(port, ":") {
			n, err := strconv.Atoi(port)
			if err != nil {
				return g, fmt.Errorf("targets[%d]: expected NAME:PORT, found %q", i, text)
			}
			t = native.Target{ID: name, Port: n}
		}
		if _, err := netip.ParseAddr(t.ID); err != nil {
			id := p.vmID(t.ID)
			if id == "" {
				return g, fmt.Errorf("targets[%d]: expected a VM of the VPC or an address, found %q", i, text)
			}
			t.ID = id
			instances++
		}
		g.Targets = append(g.Targets, t)
	}
	if instances > 0 {
		g.Type = "instance"
	}
	if instances > 0 && instances < len(g.Targets) {
		return g, fmt.Errorf("targets: expected either VMs or addresses, found both")
	}
	return g, g.Check()
}

// vmID is the id of a VM of the VPC, "" if there is none with the name.
func (p *place) vmID(name string) string {
	for i := range p.spec.VMs {
		if vm := &p.spec.VMs[i]; vm.Name == name {
			return cmp.Or(vm.ID, defaults.ID("i", p.vpc.ID, vm.Name))
		}
	}
	return ""
}

func (p *place) service(y *yamlService, targets map[string]string) error {
	s := native.Service{
		Kind: y.Kind, Name: y.Name, Account: p.vpc.Account, Region: p.vpc.Region, VPCID: p.vpc.ID, Engine: cmp.Or(y.Engine, y.Service),
		Version: y.Version, Class: y.Class, Port: y.Port, Public: y.Public, MultiZone: y.MultiZone, Created: defaults.LaunchTime(), Tags: y.Tags,
	}
	subnets := y.Subnets
	if len(subnets) == 0 {
		subnets = p.order
	}
	for _, name := range subnets {
		if p.subnets[name] == nil {
			return fmt.Errorf("subnets: the VPC has no subnet named %q", name)
		}
		s.Subnets = append(s.Subnets, p.subnets[name].ID)
	}
	groups := y.Groups
	if len(groups) == 0 && s.Kind != native.NetBalancer && s.Kind != native.GatewayBalancer {
		groups = []string{defaults.GroupName}
	}
	for _, name := range groups {
		if p.groups[name] == nil {
			return fmt.Errorf("groups: the VPC has no group named %q", name)
		}
		s.Groups = append(s.Groups, p.groups[name].ID)
	}
	for i, text := range y.Listeners {
		f := strings.Fields(text)
		if len(f) != 4 || f[2] != "to" || targets[f[3]] == "" {
			return fmt.Errorf("listeners[%d]: expected \"PROTOCOL PORT to TARGETGROUP\", found %q", i, text)
		}
		port, err := strconv.Atoi(f[1])
		if err != nil {
			return fmt.Errorf("listeners[%d]: expected a port, found %q", i, f[1])
		}
		s.Listeners = append(s.Listeners, native.Listener{ID: native.Hex(p.vpc.ID, y.Name, text), Protocol: f[0], Port: port, Target: targets[f[3]]})
	}
	all, err := p.withMembers(s, y)
	if err != nil {
		return err
	}
	for i := range all {
		if err := all[i].Check(); err != nil {
			return err
		}
	}
	p.region.Services = append(p.region.Services, all...)
	return nil
}

// withMembers gives a service its nodes, or makes its members, spread over the subnets.
func (p *place) withMembers(s native.Service, y *yamlService) ([]native.Service, error) {
	members := max(y.Members, 1)
	nodes := func(n int) ([]native.Node, error) {
		out := make([]native.Node, n)
		for i := range out {
			out[i].SubnetID = s.Subnets[i%len(s.Subnets)]
			if i < len(y.IP) {
				a, err := netip.ParseAddr(y.IP[i])
				if err != nil {
					return nil, fmt.Errorf("ip: expected an address, found %q", y.IP[i])
				}
				out[i].Addr = a
				for _, sub := range p.subnets {
					if sub.CIDR.Contains(a) {
						out[i].SubnetID = sub.ID
					}
				}
			}
		}
		return out, nil
	}
	var err error
	member := func(k native.Kind, name string, node native.Node) native.Service {
		m := s.Clone()
		m.Kind, m.Name, m.Parent, m.Nodes, m.MultiZone = k, name, s.Name, []native.Node{node}, false
		return m
	}
	out := []native.Service{s}
	var places []native.Node
	switch s.Kind {
	case native.Database, native.Cache:
		out[0].Nodes, err = nodes(members)
	case native.DatabaseCluster, native.ReplicationGroup:
		places, err = nodes(members)
		for i, n := range places {
			k, name := native.Database, fmt.Sprintf("%s-%d", s.Name, i+1)
			if s.Kind == native.ReplicationGroup {
				k, name = native.Cache, fmt.Sprintf("%s-%03d", s.Name, i+1)
			}
			m := member(k, name, n)
			m.Writer = i == 0
			out = append(out, m)
		}
	case native.FileSystem:
		s.Name = cmp.Or(y.ID, defaults.ID("fs", p.vpc.ID, y.Name))
		out[0].Name, out[0].Tags = s.Name, withName(y.Tags, y.Name)
		places, err = nodes(len(s.Subnets))
		for i, n := range places {
			m := member(native.MountTarget, defaults.ID("fsmt", s.Name, fmt.Sprint(i)), n)
			m.Tags = nil
			out = append(out, m)
		}
	default:
		if s.Kind == native.Endpoint {
			out[0].Name, out[0].Tags = cmp.Or(y.ID, defaults.ID("vpce", p.vpc.ID, y.Name)), withName(y.Tags, y.Name)
		}
		if s.Kind.Balances() {
			out[0].Name = native.BalancerName(s.Kind, p.vpc.Account, p.vpc.Region, y.Name)
		}
		out[0].Nodes, err = nodes(len(s.Subnets))
	}
	return out, err
}
