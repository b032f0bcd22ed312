package explain

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/explain/imported"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/explain/placement"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/reach"
)

// TestReachIsWhatExplainWants: on random worlds, reach says of every packet between two ends what
// explain says that is wanted. The ends are VMs, native services, interfaces, Pods with addresses
// of a VPC and others, Nodes, hosts with agents of each kind, machines that nothing has imported,
// and addresses; some interfaces are under our control, with a record of what they held before or
// without. NEPHELE_WORLDS says how many worlds are tried, NEPHELE_SEED tries one.
func TestReachIsWhatExplainWants(t *testing.T) {
	first, n := uint64(1), uint64(20)
	if text := os.Getenv("NEPHELE_WORLDS"); text != "" {
		n, _ = strconv.ParseUint(text, 10, 32)
	}
	if text := os.Getenv("NEPHELE_SEED"); text != "" {
		first, _ = strconv.ParseUint(text, 10, 64)
		n = 1
	}
	seen := map[string]int{}
	for seed := first; seed < first+n; seed++ {
		w := drawWorld(seed)
		w.compare(t, seen)
		if t.Failed() {
			t.Fatalf("try it alone with NEPHELE_SEED=%d", seed)
		}
	}
	t.Log(seen)
	if n == 1 {
		return
	}
	for _, what := range []string{
		"Allow", "Drop", "Reject", "Unknown", "NoRoute", "within a machine", "from a delegated block", "by public addresses", "behind a machine that policies select",
		"vm cns", "cns nic", "nic pod", "pod vm", "pod pod", "pod node", "host vm", "host pod", "cloud cns", "address pod", "address cns", "cns address",
	} {
		if seen[what] < 20 {
			t.Errorf("%d flows of %q, want at least 20: %v", seen[what], what, seen)
		}
	}
}

// drawnWorld is a random world.
type drawnWorld struct {
	*rand.Rand
	seed uint64
	in   input.Objects
	// hosts counts the addresses of each network that are taken.
	hosts     map[string]int
	blocks    int
	refs      map[types.NamespacedName]selection.VMRef
	natives   map[types.NamespacedName]selection.ServiceRef
	near, far *cloud.Snapshot
}

var drawnNetworks = []string{"vpc-a", "vpc-b", "vpc-c", "vpc-d"}

// drawWorld draws vpc-a, which is peered with vpc-b in its region and vpc-d in another one, and
// vpc-c, which is alone.
func drawWorld(seed uint64) *drawnWorld {
	w := &drawnWorld{
		Rand: rand.New(rand.NewPCG(seed, 51)), seed: seed, hosts: map[string]int{}, refs: map[types.NamespacedName]selection.VMRef{},
		natives: map[types.NamespacedName]selection.ServiceRef{},
	}
	end := func(network, region string) cloud.PeeringEnd {
		return cloud.PeeringEnd{NetworkID: network, OwnerID: "1", Region: region}
	}
	peerings := []cloud.Peering{{ID: "p1", A: end("vpc-a", "r"), B: end("vpc-b", "r")}, {ID: "p2", A: end("vpc-d", "s"), B: end("vpc-a", "r")}}
	w.near = &cloud.Snapshot{Scope: cloud.Scope{Account: "n0/a", Region: "r"}, OwnerID: "1", Peerings: peerings, PrefixLists: []cloud.PrefixList{
		{ID: "pl-known", OwnerID: "1", MaxEntries: 9, Entries: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("10.0.0.2/31")}},
		{ID: "pl-secret", OwnerID: cloud.CloudOwned},
	}}
	w.far = &cloud.Snapshot{Scope: cloud.Scope{Account: "n0/a", Region: "s"}, OwnerID: "1", Peerings: peerings}
	for _, n := range []string{"n0", "n1"} {
		w.in.Namespaces = append(w.in.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"team": n}}})
	}
	for _, network := range drawnNetworks {
		w.groups(network)
		for range 2 {
			w.machine(network)
		}
	}
	w.outside()
	for _, s := range []*cloud.Snapshot{w.near, w.far} {
		sortByID(s.Groups, func(g *cloud.Group) string { return g.ID })
		sortByID(s.Interfaces, func(n *cloud.Interface) string { return n.ID })
		sortByID(s.VMs, func(v *cloud.VM) string { return v.ID })
		sortByID(s.Services, func(x *cloud.Service) string { return x.ID })
	}
	account := &cloudv1alpha1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n0", Name: "a"}}
	if w.IntN(2) == 0 {
		account.Spec.Failsafe = []cloudv1alpha1.FailsafeFlow{
			{Protocol: "TCP", Port: ptr.To(int32(22)), CIDRs: []string{"10.0.0.0/15", "198.51.100.0/25"}}, {Direction: "Egress", Protocol: "ICMP", CIDRs: []string{"0.0.0.0/0", "::/0"}},
		}
	}
	w.in.Accounts = []*cloudv1alpha1.CloudProviderAccount{account}
	w.in.Observed = []input.Account{{Key: "n0/a", Snapshots: []*cloud.Snapshot{w.near, w.far}, VMs: w.refs, Services: w.natives}}
	for i := range 2 + w.IntN(4) {
		w.policy(i)
	}
	return w
}

func sortByID[T any](list []T, id func(*T) string) {
	slices.SortFunc(list, func(a, b T) int {
		if id(&a) < id(&b) {
			return -1
		}
		return 1
	})
}

// one draws one of several.
func one[T any](w *drawnWorld, of ...T) T { return of[w.IntN(len(of))] }

func (w *drawnWorld) snapshot(network string) *cloud.Snapshot {
	if network == "vpc-d" {
		return w.far
	}
	return w.near
}

// address is the next one of a network: VPC c has the addresses of VPC b again.
func (w *drawnWorld) address(network string, v6 bool) netip.Addr {
	w.hosts[network]++
	block := map[string]int{"vpc-a": 0, "vpc-b": 1, "vpc-c": 2, "vpc-d": 3}[network]
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%d", block, w.hosts[network]))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", block, w.hosts[network]))
}

// block is what the cloud delegates to an interface of a network.
func (w *drawnWorld) block(network string) []netip.Prefix {
	w.blocks++
	a := w.address(network, false).As4()
	a[3] = byte(48 + 16*(w.blocks%12))
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4(a), 28)}
}

func (w *drawnWorld) match() cloud.Match {
	return one(w, cloud.NewMatch(cloud.AnyProtocol, -1, -1), cloud.NewMatch(cloud.TCP, 80, 80), cloud.NewMatch(cloud.TCP, 22, 443), cloud.NewMatch(cloud.UDP, 53, 53), cloud.NewMatch(cloud.ICMP, 8, -1))
}

// groups draws three groups of a network and one of ours.
func (w *drawnWorld) groups(network string) {
	s := w.snapshot(network)
	for g := range 3 {
		group := cloud.Group{ID: fmt.Sprintf("sg-%s-%d", network, g), Name: fmt.Sprint("g", g), NetworkID: network, OwnerID: "1"}
		for range 2 + w.IntN(4) {
			peer := cloud.Peer{}
			switch w.IntN(8) {
			case 0, 1, 2:
				peer.CIDR = netip.MustParsePrefix(one(w, "0.0.0.0/0", "10.0.0.0/8", "10.0.1.0/24", "198.51.100.0/24", "::/0", "10.0.0.4/30"))
			case 3:
				peer.GroupID = fmt.Sprintf("sg-%s-%d", one(w, "vpc-a", "vpc-b", "vpc-d"), w.IntN(3))
			case 4:
				peer.PrefixListID = one(w, "pl-known", "pl-known", "pl-secret")
				if w.IntN(2) == 0 {
					peer.Except = cloud.BlocksOf([]netip.Prefix{netip.MustParsePrefix("198.51.100.0/25")})
				}
			case 5:
				if w.IntN(4) == 0 {
					peer.GroupID, peer.GroupOwner = "sg-foreign", "2"
					break
				}
				fallthrough
			default:
				peer.GroupID = fmt.Sprintf("sg-%s-%d", network, w.IntN(3))
			}
			group.Rules = append(group.Rules, cloud.Rule{Direction: one(w, cloud.Ingress, cloud.Ingress, cloud.Egress), Match: w.match(), Peer: peer})
		}
		if w.IntN(2) == 0 {
			group.Rules = append(group.Rules, cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(cloud.AnyProtocol, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}})
		}
		s.Groups = append(s.Groups, group)
	}
	s.Groups = append(s.Groups, cloud.Group{ID: "sg-" + network + "-ours", Name: cloud.NamePrefix + "x", NetworkID: network, OwnerID: "1", Tags: map[string]string{
		cloud.TagKind: "class", cloud.TagCluster: "c"}})
}

// held draws the groups of an interface of a network, and takes it over in some cases.
func (w *drawnWorld) held(network string, tags map[string]string) []string {
	own := []string{fmt.Sprintf("sg-%s-%d", network, w.IntN(3))}
	if w.IntN(3) == 0 {
		own = append(own, fmt.Sprintf("sg-%s-%d", network, w.IntN(3)))
	}
	slices.Sort(own)
	own = slices.Compact(own)
	switch w.IntN(8) {
	case 0, 1:
		tags[cloud.TagFormer] = own[0]
		if len(own) > 1 {
			tags[cloud.TagFormer] += " " + own[1]
		}
		return []string{"sg-" + network + "-ours"}
	case 2:
		if w.IntN(3) == 0 {
			return []string{"sg-" + network + "-ours"} // its record is lost
		}
	}
	return own
}

func (w *drawnWorld) labels() map[string]string {
	return map[string]string{"app": one(w, "web", "db", "job")}
}

func (w *drawnWorld) mode() string { return one(w, "", "", "", "plan") }

// imported adds an entity that stands for something in the account.
func (w *drawnWorld) imported(name string, addresses []netip.Addr) types.NamespacedName {
	e := &v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: one(w, "n0", "n1"), Name: name, Labels: w.labels()},
		Spec: v1alpha2.ExternalEntitySpec{ExternalNode: "cloud/n0/a"}}
	for _, a := range addresses {
		e.Spec.Endpoints = append(e.Spec.Endpoints, v1alpha2.Endpoint{IP: a.String()})
	}
	w.in.Entities = append(w.in.Entities, e)
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
}

// machine draws a VM, and what may be on it, or an interface or native service.
func (w *drawnWorld) machine(network string) {
	s := w.snapshot(network)
	number := len(s.Interfaces)
	id := fmt.Sprintf("%s-%d", network, number)
	add := func(n cloud.Interface) {
		n.NetworkID, n.OwnerID = network, "1"
		if n.Tags == nil {
			n.Tags = map[string]string{}
		}
		s.Interfaces = append(s.Interfaces, n)
	}
	public := func() []netip.Addr {
		if w.IntN(3) > 0 {
			return nil
		}
		return []netip.Addr{netip.MustParseAddr(fmt.Sprintf("203.0.%d.%d", int(network[4]-'a'), len(s.Interfaces)+1))}
	}
	switch w.IntN(5) {
	case 0: // a native service with one or two interfaces, or a load balancer without groups
		service := cloud.Service{ID: "arn:" + id, Kind: cloud.RDSInstance, NetworkID: network, Tags: map[string]string{}}
		groups := w.held(network, service.Tags)
		if w.IntN(4) == 0 {
			groups = nil
		}
		for k := range 1 + w.IntN(2) {
			n := cloud.Interface{ID: fmt.Sprintf("eni-%s-%d", id, k), PrivateIPs: []netip.Addr{w.address(network, false)}, Managed: true, GroupIDs: groups}
			service.Interfaces, service.Private = append(service.Interfaces, n.ID), append(service.Private, n.PrivateIPs...)
			add(n)
		}
		s.Services = append(s.Services, service)
		if w.IntN(4) > 0 {
			w.natives[w.imported("cloudnativeservice-"+id, service.Private)] = selection.ServiceRef{ID: service.ID, Region: s.Region, Mode: w.mode()}
		}
		return
	case 1: // an interface alone
		n := cloud.Interface{ID: "eni-" + id, PrivateIPs: []netip.Addr{w.address(network, false)}, PublicIPs: public(), Tags: map[string]string{}}
		n.GroupIDs = w.held(network, n.Tags)
		add(n)
		if w.IntN(4) > 0 {
			w.natives[w.imported("networkinterface-"+id, slices.Concat(n.PrivateIPs, n.PublicIPs))] = selection.ServiceRef{ID: n.ID, Region: s.Region, Mode: w.mode()}
		}
		return
	}
	vm := cloud.VM{ID: "i-" + id, NetworkID: network}
	var addresses []netip.Addr
	var first []netip.Addr
	var delegated []netip.Prefix
	for k := range 1 + w.IntN(2) {
		n := cloud.Interface{ID: fmt.Sprintf("eni-%s-%d", id, k), VMID: vm.ID, PrivateIPs: []netip.Addr{w.address(network, false)}, PublicIPs: public(), Tags: map[string]string{}}
		if w.IntN(4) == 0 {
			n.PrivateIPs = append(n.PrivateIPs, w.address(network, true))
		}
		for range w.IntN(3) {
			n.PrivateIPs = append(n.PrivateIPs, w.address(network, false))
		}
		if w.IntN(3) == 0 {
			n.Prefixes = w.block(network)
			delegated = append(delegated, n.Prefixes...)
		}
		n.GroupIDs = w.held(network, n.Tags)
		vm.Interfaces, addresses, first = append(vm.Interfaces, n.ID), slices.Concat(addresses, n.PrivateIPs, n.PublicIPs), append(first, n.PrivateIPs...)
		add(n)
	}
	s.VMs = append(s.VMs, vm)
	kind := w.IntN(6)
	if kind > 0 {
		w.refs[w.imported("virtualmachine-"+vm.ID, addresses)] = selection.VMRef{VMID: vm.ID, Region: s.Region, Mode: w.mode()}
	}
	switch w.IntN(3) {
	case 0: // a Node, with a Pod for every address but the first
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + id, Labels: w.labels()}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: first[0].String()}}
		w.in.Nodes = append(w.in.Nodes, node)
		for k, a := range first[1:] {
			w.pod(fmt.Sprintf("pod-%s-%d", id, k), node.Name, a.String())
		}
		for k, p := range delegated { // as the CNIs of clouds give them
			w.pod(fmt.Sprintf("block-%s-%d", id, k), node.Name, p.Addr().Next().String())
		}
		w.pod("overlay-"+id, node.Name, fmt.Sprintf("10.244.%d.%d", int(network[4]-'a'), len(w.in.Pods)+1))
		if w.IntN(2) == 0 {
			w.pod("host-"+id, node.Name, first[0].String())
			w.in.Pods[len(w.in.Pods)-1].Spec.HostNetwork = true
		}
	case 1:
		if w.IntN(2) == 0 {
			w.host("host-"+id, first[0])
		}
	}
}

func (w *drawnWorld) pod(name, node, address string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: one(w, "n0", "n1"), Name: name, Labels: w.labels()}, Spec: corev1.PodSpec{NodeName: node}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: one(w, int32(80), 22)}}}}
	p.Status.PodIP, p.Status.PodIPs, p.Status.Phase = address, []corev1.PodIP{{IP: address}}, corev1.PodRunning
	w.in.Pods = append(w.in.Pods, p)
}

// host adds one on which an agent enforces policies, ours or Antrea's.
func (w *drawnWorld) host(name string, a netip.Addr) {
	w.in.ExternalNodes = append(w.in.ExternalNodes, &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "n0", Name: name, Labels: w.labels()},
		Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{a.String()}}}}})
	if w.IntN(3) == 0 {
		return
	}
	info := &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: name}, Version: "v1", NodeRef: v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: "n0", Name: name}}
	if w.IntN(2) == 0 {
		info.Labels = map[string]string{cloudv1alpha1.LabelAllowIsolates: "true"}
		if w.IntN(2) == 0 {
			info.Annotations = map[string]string{cloudv1alpha1.AnnotationHostFailsafe: `[{"protocol": "TCP", "port": 22, "cidrs": ["10.0.0.0/16"]}]`}
		}
	}
	w.in.AgentInfos = append(w.in.AgentInfos, info)
}

// outside draws ends that are in no cloud that was read.
func (w *drawnWorld) outside() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-home", Labels: w.labels()}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.9.1"}}
	w.in.Nodes = append(w.in.Nodes, node)
	w.pod("home", node.Name, "10.245.0.1")
	w.pod("clash", node.Name, "10.0.0.1") // as somebody in vpc-a
	w.pod("nodeless", "unknown", "10.246.0.1")
	w.host("office", netip.MustParseAddr("198.51.100.9"))
	w.in.Entities = append(w.in.Entities, &v1alpha2.ExternalEntity{ObjectMeta: metav1.ObjectMeta{Namespace: "n1", Name: "elsewhere", Labels: w.labels()},
		Spec: v1alpha2.ExternalEntitySpec{ExternalNode: "cloud/n1/unread", Endpoints: []v1alpha2.Endpoint{{IP: "10.0.1.1"}, {IP: "203.0.113.77"}}}})
}

// policy draws one.
func (w *drawnWorld) policy(i int) {
	app := func() string { return "matchLabels: {app: " + one(w, "web", "db", "job") + "}" }
	peers := func() string {
		return one(w, "{externalEntitySelector: {"+app()+"}}", "{podSelector: {"+app()+"}}", "{namespaceSelector: {}, externalEntitySelector: {"+app()+"}}",
			"{namespaceSelector: {matchLabels: {team: n1}}, podSelector: {}}", "{ipBlock: {cidr: 10.0.0.0/23, except: [10.0.1.0/31]}}", "{ipBlock: {cidr: 0.0.0.0/0}}",
			"{ipBlock: {cidr: 198.51.100.0/24}}", "{ipBlock: {cidr: '2001:db8::/32'}}")
	}
	rules := func(direction, side string) string {
		text := direction + ": ["
		for range w.IntN(4) {
			text += fmt.Sprintf("{action: %s, %s: [%s], ports: [%s]}, ", one(w, "Allow", "Allow", "Allow", "Drop", "Reject", "Pass"), side, peers(),
				one(w, "{port: 80}", "{port: 22, endPort: 100}", "{protocol: UDP}", "{port: http}"))
		}
		if w.IntN(2) == 0 {
			text += fmt.Sprintf("{action: %s, %s: [%s]}", one(w, "Allow", "Drop"), side, peers())
		}
		return text + "]"
	}
	kind, at := "NetworkPolicy", ", namespace: "+one(w, "n0", "n1")
	to := one(w, "{externalEntitySelector: {"+app()+"}}", "{podSelector: {"+app()+"}}", "{externalEntitySelector: {}}")
	if w.IntN(2) == 0 {
		kind, at = "ClusterNetworkPolicy", ""
		to = one(w, "{namespaceSelector: {}, externalEntitySelector: {"+app()+"}}", "{podSelector: {"+app()+"}, namespaceSelector: {}}", "{nodeSelector: {"+app()+"}}")
	}
	text := fmt.Sprintf("metadata: {name: p%d, uid: p%d%s}\nspec: {tier: %s, priority: %d, appliedTo: [%s], %s, %s}\n", i, i, at,
		one(w, "emergency", "application", "application", "baseline"), 1+w.IntN(5), to, rules("ingress", "from"), rules("egress", "to"))
	var o any
	if kind == "NetworkPolicy" {
		p := &v1beta1.NetworkPolicy{}
		o, w.in.Policies = p, append(w.in.Policies, p)
	} else {
		p := &v1beta1.ClusterNetworkPolicy{}
		o, w.in.ClusterPolicies = p, append(w.in.ClusterPolicies, p)
	}
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		panic(fmt.Sprint(err, "\n", text))
	}
}

// services are those that are asked about.
func drawnServices() map[string]evaluate.Flow {
	return map[string]evaluate.Flow{
		"tcp 80": {Protocol: policy.TCP, Port: 80}, "tcp 22": {Protocol: policy.TCP, Port: 22}, "tcp 101": {Protocol: policy.TCP, Port: 101},
		"udp 53": {Protocol: policy.UDP, Port: 53}, "icmp": {Protocol: policy.ICMP, ICMPType: EchoRequest},
	}
}

// compare asks both about every packet.
func (w *drawnWorld) compare(t *testing.T, seen map[string]int) {
	c := Compute(&w.in)
	for _, p := range c.Problems {
		if len(p.Errors) > 0 {
			t.Fatalf("seed %d: %+v", w.seed, p)
		}
	}
	world := c.World(true)
	flows := world.Reach(reach.Question{From: reach.Everybody(), To: reach.Everybody(), Refused: true})
	var ends []end
	for _, ref := range slices.SortedFunc(keysOf(c.Ends), placement.Compare) {
		ends = append(ends, c.endOf(c.Ends[ref]))
	}
	for i := range world.Endpoints { // machines that nothing has imported, by their addresses
		e := &world.Endpoints[i]
		for _, p := range e.Blocks.Prefixes() {
			if found, err := c.finder().findAddress("", p.Addr()); err == nil && found.at == e.EntityRef {
				ends = append(ends, found)
			}
		}
		if e.Kind == 0 {
			for _, a := range e.Addresses {
				if found, err := c.finder().findAddress("", a); err == nil && found.ref.Kind == 0 && !e.Public {
					ends = append(ends, found)
				}
			}
		}
	}
	for _, a := range []string{"198.51.100.200", "192.0.2.77", "10.9.9.9", "2001:db8:9::1"} {
		ends = append(ends, end{addresses: []netip.Addr{netip.MustParseAddr(a)}, byAddress: true})
	}
	for _, from := range ends {
		for _, to := range ends {
			for _, p := range c.pairs(from, to) {
				if w.IntN(5) > 0 {
					continue
				}
				w.comparePair(t, c, world, flows, from, to, p, seen)
				if t.Failed() {
					return
				}
			}
		}
	}
}

func keysOf(m map[policy.EntityRef]policy.Entity) func(func(policy.EntityRef) bool) {
	return func(yield func(policy.EntityRef) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (w *drawnWorld) comparePair(t *testing.T, c *Computation, world *World, flows []reach.Flows, from, to end, p pair, seen map[string]int) {
	if p.src.Addr.Is4() != p.dst.Addr.Is4() || p.src.Addr == p.dst.Addr {
		return
	}
	for name, f := range drawnServices() {
		if f.Protocol == policy.ICMP && p.src.Addr.Is6() {
			f.ICMPType = EchoRequestV6
		}
		one := c.passageOf(p, from, to, f)
		source, destination, public := p.src.Addr, p.dst.Addr, false
		if one.now != nil && p.src.Interface != nil && p.dst.Public.IsValid() {
			if source, destination, public = one.now.SeenSource, p.dst.Public, true; !source.IsValid() {
				continue // it is seen with the address of a gateway that is not known
			}
			if c.clouds.Now.Connected(p.src.Network(), p.dst.Network()) {
				continue // by addresses that rules for machines in sight do not name
			}
		}
		sender, receiver := endpointAt(world, from, source, public), endpointAt(world, to, destination, public)
		if one.come.Source.Addr != source || one.sent.Destination.Addr != destination {
			continue // a gateway translates it
		}
		if from.ref.Kind != 0 && sender == nil || to.ref.Kind != 0 && receiver == nil {
			continue // the address is that of a Pod on the machine
		}
		if sender == nil && receiver == nil || sender == receiver || (sender != nil && sender.Public) != (receiver != nil && receiver.Public) {
			continue // of which the private addresses are told
		}
		got, err := c.explain(from, to, f, []passage{one})
		if err != nil {
			t.Fatal(err)
		}
		s := serviceOf(&f, source.Is6())
		var told []reach.Flows
		for _, x := range flows {
			if x.Holds(sender, receiver, source, destination, reach.Service(s.Protocol, int(s.From))) {
				told = append(told, x)
			}
		}
		if len(told) != 1 {
			t.Errorf("seed %d: %s from %s to %s (%v to %v): told %d times: %+v", w.seed, name, from, to, source, destination, len(told), told)
			return
		}
		want := got.Wanted
		if told[0].Apart && want == NoRoute {
			want = string(told[0].Outcome)
			seen["NoRoute"]++
		}
		if string(told[0].Outcome) != want {
			t.Errorf("seed %d: %s from %s to %s (%v to %v): reach says %s (%+v, %+v), explain wants %s\negress %s\ningress %s\nfrom %+v\nto %+v", w.seed, name, from, to, source, destination,
				told[0].Outcome, told[0].Egress, told[0].Ingress, got.Wanted, dump(got.Egress), dump(got.Ingress), sender, receiver)
			return
		}
		seen[want]++
		seen[word(from)+" "+word(to)]++
		if one.now != nil && one.now.Way == "Itself" {
			seen["within a machine"]++
		}
		for _, e := range []*reach.Endpoint{sender, receiver} {
			if e != nil && !slices.Contains(e.Addresses, source) && e.Blocks.Contains(source) {
				seen["from a delegated block"]++
			}
		}
		if public {
			seen["by public addresses"]++
		}
		for _, e := range []*reach.Endpoint{sender, receiver} {
			if e != nil && e.Behind != nil && e.Behind.Kind != 0 && len(world.Applied(e.Behind).Policies) > 0 {
				seen["behind a machine that policies select"]++
			}
		}
	}
}

func dump(d *analysis.Decision) string {
	text, _ := yaml.Marshal(d)
	return string(text)
}

// word is the kind of an end.
func word(e end) string {
	switch {
	case e.ref.Kind == policy.KindPod:
		return "pod"
	case e.ref.Kind == policy.KindNode:
		return "node"
	case e.ref.Kind == 0 && e.addresses[0].IsPrivate() && e.addresses[0].As4()[2] < 4:
		return "cloud"
	case e.ref.Kind == 0:
		return "address"
	case !e.isCloudVM():
		return "host"
	}
	return string(imported.KindOf(e.ref))
}

// endpointAt is the endpoint of an end with an address.
func endpointAt(w *World, e end, a netip.Addr, public bool) *reach.Endpoint {
	var other *reach.Endpoint
	for i := range w.Endpoints {
		x := &w.Endpoints[i]
		if x.EntityRef != e.at || !x.All().Contains(a) {
			continue
		}
		if x.Public == public {
			return x
		}
		other = x
	}
	return other
}
