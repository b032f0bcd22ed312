package native

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// nicOf is an interface of a service as EC2 shows it.
func nicOf(id, subnet, ip, ifType, requester, description string, groups ...string) cloud.Interface {
	return cloud.Interface{
		ID: id, NetworkID: "vpc-1", SubnetID: subnet, OwnerID: "111122223333", Managed: true, Type: ifType, Requester: requester, Description: description,
		PrivateIPs: []netip.Addr{netip.MustParseAddr(ip)}, GroupIDs: groups,
	}
}

func allKinds() map[cloud.ServiceKind]bool {
	kinds := map[cloud.ServiceKind]bool{}
	for _, k := range cloud.ServiceKinds() {
		kinds[k] = true
	}
	return kinds
}

// TestMakers: the owner of an interface is read from what only the cloud can set. The maker of an
// interface himself chooses its description, and is nobody's service; nor is that of another
// service which looks alike.
func TestMakers(t *testing.T) {
	const elb = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:loadbalancer/"
	for description, c := range map[string]struct {
		requester, ifType string
		want              made
	}{
		"RDSNetworkInterface":                     {"amazon-rds", "interface", made{kind: cloud.RDSInstance}},
		"ElastiCache sessions-001":                {"amazon-elasticache", "interface", made{cloud.ElastiCacheCluster, "arn:aws:elasticache:eu-west-1:111122223333:cluster:sessions-001", "sessions-001"}},
		"ELB app/front/50dc6c495c0c9188":          {"amazon-elb", "interface", made{cloud.ApplicationLoadBalancer, elb + "app/front/50dc6c495c0c9188", "front"}},
		"ELB net/edge/50dc6c495c0c9188":           {"amazon-elb", "network_load_balancer", made{cloud.NetworkLoadBalancer, elb + "net/edge/50dc6c495c0c9188", "edge"}},
		"ELB gwy/inspect/50dc6c495c0c9188":        {"123456789012", "gateway_load_balancer", made{cloud.GatewayLoadBalancer, elb + "gwy/inspect/50dc6c495c0c9188", "inspect"}},
		"VPC Endpoint Interface vpce-0a1b2c3d4e5": {"727180483921", "vpc_endpoint", made{cloud.VPCEndpoint, "arn:aws:ec2:eu-west-1:111122223333:vpc-endpoint/vpce-0a1b2c3d4e5", "vpce-0a1b2c3d4e5"}},
		"EFS mount target for fs-0123 (fsmt-0456)": {"641247547298", "efs",
			made{cloud.EFSFileSystem, "arn:aws:elasticfilesystem:eu-west-1:111122223333:file-system/fs-0123", "fs-0123"}},
		"AWS Lambda VPC ENI-resize-0b3e": {"AROA:111122223333", "lambda", made{kind: cloud.LambdaFunction}},
	} {
		n := nicOf("eni-1", "subnet-1", "10.0.0.1", c.ifType, c.requester, description)
		if got, ok := makerOf(&n, "eu-west-1"); !ok || got != c.want {
			t.Errorf("%s: %+v %v, want %+v", description, got, ok, c.want)
		}
		for what, forge := range map[string]func(*cloud.Interface){
			"made by its owner":    func(n *cloud.Interface) { n.Managed, n.Requester, n.Type = false, "", "" },
			"of an unknown type":   func(n *cloud.Interface) { n.Type = "trunk" },
			"of another service":   func(n *cloud.Interface) { n.Requester, n.Type = "amazon-workspaces", "interface" },
			"with words before it": func(n *cloud.Interface) { n.Description = "my " + n.Description },
			"with words behind it": func(n *cloud.Interface) { n.Description += " mine" },
			"with a second line":   func(n *cloud.Interface) { n.Description += "\nmine" },
		} {
			forged := n
			forge(&forged)
			if got, ok := makerOf(&forged, "eu-west-1"); ok {
				t.Errorf("%s, %s: %+v", description, what, got)
			}
		}
	}
}

// TestServicesOfInterfaces: where no API tells, interfaces of one service are one service, and
// those that do not say whose they are are each one.
func TestServicesOfInterfaces(t *testing.T) {
	snap := &cloud.Snapshot{Scope: cloud.Scope{Region: "cn-north-1"}, Interfaces: []cloud.Interface{
		nicOf("eni-1", "subnet-1", "10.0.0.1", "interface", "amazon-elb", "ELB app/front/50dc6c495c0c9188", "sg-1"),
		nicOf("eni-2", "subnet-2", "10.0.1.1", "interface", "amazon-elb", "ELB app/front/50dc6c495c0c9188", "sg-1"),
		nicOf("eni-3", "subnet-1", "10.0.0.3", "interface", "amazon-rds", "RDSNetworkInterface", "sg-2"),
		nicOf("eni-4", "subnet-1", "10.0.0.4", "interface", "amazon-rds", "RDSNetworkInterface", "sg-2"),
		{ID: "eni-5", NetworkID: "vpc-1", Description: "RDSNetworkInterface", PrivateIPs: []netip.Addr{netip.MustParseAddr("10.0.0.5")}},
	}}
	got := servicesOf(snap, &described{kinds: allKinds()}, nil)
	want := []cloud.Service{
		{ID: "arn:aws-cn:elasticloadbalancing:cn-north-1:111122223333:loadbalancer/app/front/50dc6c495c0c9188", Kind: cloud.ApplicationLoadBalancer, Name: "front", NetworkID: "vpc-1",
			Interfaces: []string{"eni-1", "eni-2"}, Private: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.1.1")}, GroupIDs: []string{"sg-1"}, Fixed: unread, Unread: true},
		{ID: "eni-3", Kind: cloud.RDSInstance, NetworkID: "vpc-1", Interfaces: []string{"eni-3"}, Private: []netip.Addr{netip.MustParseAddr("10.0.0.3")}, GroupIDs: []string{"sg-2"}, Fixed: unread, Unread: true},
		{ID: "eni-4", Kind: cloud.RDSInstance, NetworkID: "vpc-1", Interfaces: []string{"eni-4"}, Private: []netip.Addr{netip.MustParseAddr("10.0.0.4")}, GroupIDs: []string{"sg-2"}, Fixed: unread, Unread: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := servicesOf(snap, &described{kinds: map[cloud.ServiceKind]bool{cloud.VPCEndpoint: true}}, nil); len(got) > 0 {
		t.Errorf("not asked for: %+v", got)
	}
}

// database describes a database as RDS does, which does not tell its interfaces.
func database(name string, subnets, groups []string) description {
	return description{
		Service: cloud.Service{ID: arn("rds", "eu-west-1", "111122223333", "db:"+name), Kind: cloud.RDSInstance, Name: name, NetworkID: "vpc-1", GroupIDs: groups},
		subnets: subnets,
	}
}

// TestWhoseInterface: a described service has the interfaces that can be nobody else's. Two that
// look alike have none, and say so, instead of one another's.
func TestWhoseInterface(t *testing.T) {
	rds := func(id, subnet, ip string, groups ...string) cloud.Interface {
		return nicOf(id, subnet, ip, "interface", "amazon-rds", "RDSNetworkInterface", groups...)
	}
	snap := &cloud.Snapshot{Scope: cloud.Scope{Region: "eu-west-1"}, Interfaces: []cloud.Interface{
		rds("eni-1", "subnet-1", "10.0.0.1", "sg-1"), rds("eni-2", "subnet-2", "10.0.1.1", "sg-1"), rds("eni-3", "subnet-1", "10.0.0.3", "sg-2"),
		rds("eni-4", "subnet-9", "10.0.9.4", "sg-1"),
		nicOf("eni-5", "subnet-1", "10.0.0.5", "interface", "amazon-elasticache", "ElastiCache x", "sg-1"),
	}}
	var whose map[string]string
	names := func(d ...description) map[string][]string {
		out := map[string][]string{}
		for _, s := range servicesOf(snap, &described{services: d, kinds: map[cloud.ServiceKind]bool{cloud.RDSInstance: true}}, whose) {
			name := s.Name
			if name == "" {
				name = s.ID
			}
			out[name] = s.Interfaces
			if s.Ambiguous != "" {
				out[name] = []string{s.Ambiguous}
			}
		}
		return out
	}
	both := []string{"subnet-1", "subnet-2"}
	got := names(database("orders", both, []string{"sg-1"}), database("audit", both, []string{"sg-2"}))
	if want := map[string][]string{"orders": {"eni-1", "eni-2"}, "audit": {"eni-3"}, "eni-4": {"eni-4"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	got = names(database("orders", both, []string{"sg-1"}), database("twin", both[:1], []string{"sg-1"}))
	if want := "interface eni-1 may be its or that of "; !reflect.DeepEqual(got["orders"], []string{want + "twin"}) || !reflect.DeepEqual(got["twin"], []string{want + "orders"}) ||
		!slices.Equal(got["eni-4"], []string{"eni-4"}) || got["eni-1"] != nil {
		t.Errorf("%v", got)
	}
	// The groups of one are being changed: its interface may hold anything, so nobody has any
	// there, but for those that are known from before.
	changing := database("moving", both[:1], []string{"sg-7"})
	changing.changing = true
	got = names(database("orders", both, []string{"sg-1"}), changing)
	if want := "interface eni-1 may be its or that of "; !reflect.DeepEqual(got["orders"], []string{want + "moving"}) || len(got["moving"]) != 1 {
		t.Errorf("%v", got)
	}
	whose = map[string]string{"eni-1": database("orders", nil, nil).ID, "eni-2": database("orders", nil, nil).ID, "eni-3": changing.ID}
	got = names(database("orders", both, []string{"sg-8"}), changing)
	if !reflect.DeepEqual(got["orders"], []string{"eni-1", "eni-2"}) || !reflect.DeepEqual(got["moving"], []string{"eni-3"}) {
		t.Errorf("%v", got)
	}
}

// TestClusterHasTheInterfacesOfItsMembers: a cluster has the interfaces of its members, also where
// it is not known which of them has which. One that may be somebody else's leaves it without any.
func TestClusterHasTheInterfacesOfItsMembers(t *testing.T) {
	rds := func(id, subnet, ip string, groups ...string) cloud.Interface {
		return nicOf(id, subnet, ip, "interface", "amazon-rds", "RDSNetworkInterface", groups...)
	}
	snap := &cloud.Snapshot{Scope: cloud.Scope{Region: "eu-west-1"}, Interfaces: []cloud.Interface{
		rds("eni-1", "subnet-1", "10.0.0.1", "sg-1"), rds("eni-2", "subnet-1", "10.0.0.2", "sg-1"), rds("eni-3", "subnet-2", "10.0.1.1", "sg-1"), rds("eni-4", "subnet-2", "10.0.1.4", "sg-2"),
	}}
	sales := description{Service: cloud.Service{ID: "arn:aws:rds:eu-west-1:111122223333:cluster:sales", Kind: cloud.RDSCluster, Name: "sales", NetworkID: "vpc-1", GroupIDs: []string{"sg-1"}}}
	member := func(name, subnet string) description {
		d := database(name, []string{subnet}, []string{"sg-1"})
		d.cluster = sales.ID
		return d
	}
	find := func(others ...description) cloud.Service {
		t.Helper()
		d := &described{services: append([]description{sales, member("sales-1", "subnet-1"), member("sales-2", "subnet-1"), member("sales-3", "subnet-2")}, others...), kinds: allKinds()}
		all := servicesOf(snap, d, nil)
		return all[slices.IndexFunc(all, func(s cloud.Service) bool { return s.ID == sales.ID })]
	}
	if got := find(database("other", []string{"subnet-2"}, []string{"sg-2"})); !slices.Equal(got.Interfaces, []string{"eni-1", "eni-2", "eni-3"}) || got.Ambiguous != "" {
		t.Errorf("%+v", got)
	}
	if got := find(database("other", []string{"subnet-2"}, []string{"sg-1"})); len(got.Interfaces) > 0 || got.Ambiguous == "" {
		t.Errorf("%+v", got)
	}
}
