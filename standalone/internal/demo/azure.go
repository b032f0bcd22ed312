package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// The second cloud: a subscription of Azure with two databases, which a VPN is taken to connect
// with the data center.
const (
	azureAccountName  = "data"
	azureTenant       = "6e657068-656c-4000-8000-00000000de30"
	azureSubscription = "6e657068-656c-4000-8000-0000000da7a0"
	azureLocation     = "westeurope"
	azureGroup        = "data"
	azureTagPrefix    = "nephele.io_"
	policyDatabases   = "database-tier"
)

// database is one VM of the story on Azure.
type database struct {
	name, nic string
	addr      netip.Addr
}

// dataTier adds the subscription to a state.
func dataTier(s *simaws.State) {
	b := build.New(azureTenant, azureSubscription, azureLocation)
	b.Principal(estate.DefaultApplication, estate.DefaultClientSecret)
	nsg := b.SecurityGroup(azureGroup, "nsg-data",
		build.Rule("postgres", "Inbound", 100, "Allow", "Tcp", "192.168.0.0/16", "", "5432"),
		build.Rule("reports", "Inbound", 110, "Allow", "Tcp", "10.244.0.0/16", "", "5432"),
		build.Rule("ssh", "Inbound", 120, "Allow", "Tcp", "192.168.0.0/16", "", "22"))
	vnet := b.Network(azureGroup, "data", []string{"10.50.0.0/16"}, []string{"db", "10.50.1.0/24"})
	for i, name := range databases() {
		b.Machine(azureGroup, name, vnet+"/subnets/db", fmt.Sprintf("10.50.1.%d", i+4), nsg)
	}
	for i := range b.State.Resources {
		if r := &b.State.Resources[i]; strings.HasSuffix(r.Type, "virtualMachines") {
			r.Tags = map[string]string{"role": "database"}
		}
	}
	s.Azure = &b.State
}

func databases() []string { return []string{"db-1", "db-2"} }

// azureNetwork is the id of the virtual network.
func azureNetwork() string {
	return "/subscriptions/" + azureSubscription + "/resourceGroups/" + azureGroup + "/providers/Microsoft.Network/virtualNetworks/data"
}

// azureLogin adds to a login what the manifest of the second account must say.
func azureLogin(l login, s *sim.Server) login {
	l.Subscription, l.Tenant, l.Location, l.Network = azureSubscription, azureTenant, azureLocation, azureNetwork()
	l.ClientID, l.ClientSecret = build.GUIDOf("client "+estate.DefaultApplication), estate.DefaultClientSecret
	l.AzureURL, l.AzureCA = s.AzureURL(), string(s.AzureCertificate())
	return l
}

// azureState is what Azure has now.
func (a account) azureState() (out azure.State) {
	a.server.World().ReadAzure(func(c *azure.Cloud, _ time.Time) { out = c.State() })
	return out
}

// databaseVMs are the databases with their interfaces.
func databaseVMs(s azure.State) []database {
	var out []database
	for i, name := range databases() {
		for _, r := range s.Resources {
			if strings.HasSuffix(r.ID, "/networkInterfaces/"+name+"-nic") {
				out = append(out, database{name, r.ID, netip.MustParseAddr(fmt.Sprintf("10.50.1.%d", i+4))})
			}
		}
	}
	return out
}

// azureObjects are all resources of the subscription, each as text without its etag.
func azureObjects(s azure.State) map[string]string {
	out := map[string]string{}
	for _, r := range s.Resources {
		tags := r.Tags
		if len(tags) == 0 {
			tags = nil // none, and none any more
		}
		text, err := json.Marshal(map[string]any{"type": r.Type, "tags": tags, "properties": withoutEtag(r.Properties)})
		if err != nil {
			panic("plain data cannot be written as JSON: " + err.Error())
		}
		out[strings.ToLower(r.ID)] = strings.ToLower(string(text)) // ids are the same in any case
	}
	return out
}

func withoutEtag(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if k != "etag" {
				out[k] = withoutEtag(x)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutEtag(v[i])
		}
		return out
	}
	return v
}

// azureOurs tells a resource that carries anything of ours.
func azureOurs(r azure.Resource) bool {
	for k := range r.Tags {
		if strings.HasPrefix(strings.ToLower(k), azureTagPrefix) {
			return true
		}
	}
	return false
}

// reports is the Pod, and its address.
const (
	reportsPod = "reports"
	reportsIP  = "10.244.1.7"
)

// dataServices are the columns within a cell of the second table.
func dataServices() []service {
	return []service{
		{letter: 'd', name: "postgres tcp/5432", protocol: protocolTCP, port: 5432},
		{letter: 's', name: "ssh tcp/22", protocol: protocolTCP, port: 22},
		{letter: 'p', name: "ping", protocol: protocolICMP, icmpType: echoRequest},
	}
}

// dataMatrix asks both simulators which machines reach the databases: what leaves a VM of AWS that
// of AWS, and what gets to a database that of Azure.
func (a account) dataMatrix() (matrix, error) {
	machines, err := vms(a.regionState())
	if err != nil {
		return matrix{}, err
	}
	m := matrix{services: dataServices()}
	type source struct {
		place
		addrs []netip.Addr
	}
	var from []source
	for _, v := range machines {
		s := source{place: place{name: v.name}}
		for _, n := range v.nics {
			s.nics, s.addrs = append(s.nics, n.ID), append(s.addrs, n.PrimaryIP().Addr)
		}
		from = append(from, s)
	}
	targets := databaseVMs(a.azureState())
	if len(targets) != len(databases()) {
		return matrix{}, fmt.Errorf("the simulated subscription has no VM called %s; was it changed by hand? Start on a new data directory", strings.Join(databases(), " or "))
	}
	from = append(from, source{place{name: "Pod " + reportsPod}, []netip.Addr{netip.MustParseAddr(reportsIP)}})
	for _, d := range targets {
		from = append(from, source{place{name: d.name}, []netip.Addr{d.addr}})
		m.to = append(m.to, place{name: d.name})
	}
	from = append(from, source{place{name: internet}, []netip.Addr{netip.MustParseAddr(internet)}})
	for _, s := range from {
		m.from = append(m.from, s.place)
		var row []string
		for _, d := range targets {
			var cell strings.Builder
			for _, svc := range m.services {
				if s.name == d.name {
					cell.WriteByte(noTraffic)
					continue
				}
				yes := 0
				for i, addr := range s.addrs {
					open, err := a.crosses(s.place, i, addr, d, svc)
					if err != nil {
						return matrix{}, err
					}
					m.flows++
					if open {
						yes++
					}
				}
				switch yes {
				case 0:
					cell.WriteByte(blocked)
				case len(s.addrs):
					cell.WriteByte(svc.letter)
				default:
					cell.WriteByte(partly)
				}
			}
			row = append(row, cell.String())
		}
		m.cells = append(m.cells, row)
	}
	return m, nil
}

// crosses asks both ends about one flow.
func (a account) crosses(from place, nic int, addr netip.Addr, to database, s service) (bool, error) {
	if from.nics != nil {
		v, err := a.server.World().Allowed(packet.Flow{
			Src: packet.End{NIC: from.nics[nic]}, Dst: packet.End{Addr: to.addr}, Protocol: s.protocol, Port: s.port, ICMPType: s.icmpType,
		})
		if err != nil || !v.Allowed {
			return false, err
		}
	}
	src := azure.End{Addr: addr}
	var v azure.Verdict
	var err error
	a.server.World().ReadAzure(func(c *azure.Cloud, _ time.Time) {
		v, err = c.Verdicts().Allowed(azure.Flow{Src: src, Dst: azure.End{NIC: to.nic}, Protocol: s.protocol, Port: s.port})
	})
	return v.Allowed, err
}

// halves says which side stops a flow from a VM of AWS to the first database: the groups on AWS,
// and those on Azure.
func (a account) halves(from string) (aws, azureSide string, err error) {
	machines, err := vms(a.regionState())
	if err != nil {
		return "", "", err
	}
	i := slices.IndexFunc(machines, func(v vm) bool { return v.name == from })
	nic, to := machines[i].nics[0], databaseVMs(a.azureState())[0]
	v, err := a.server.World().Allowed(packet.Flow{Src: packet.End{NIC: nic.ID}, Dst: packet.End{Addr: to.addr}, Protocol: protocolTCP, Port: 5432})
	if err != nil {
		return "", "", err
	}
	var w azure.Verdict
	a.server.World().ReadAzure(func(c *azure.Cloud, _ time.Time) {
		w, err = c.Verdicts().Allowed(azure.Flow{Src: azure.End{Addr: nic.PrimaryIP().Addr}, Dst: azure.End{NIC: to.nic}, Protocol: protocolTCP, Port: 5432})
	})
	if v.Allowed || w.Allowed {
		return "", "", err
	}
	return v.Reason, w.Reason, err
}

// lookAtData prints which machines reach the databases, and checks it against a table.
func (s *story) lookAtData(want string, marks bool) error {
	m, err := s.account.dataMatrix()
	if err != nil {
		return err
	}
	var former [][]string
	if marks {
		former = s.lastData.cells
	}
	s.compare(m, former, dataTable(want).cells, "both simulators")
	s.lastData = m
	return nil
}

// secondCloud takes the databases on Azure under the same policies.
func (s *story) secondCloud(ctx context.Context) error {
	s.heading("A second cloud")
	s.say("The databases of the web tier are VMs on Azure: %s and %s in the virtual network data (10.50.0.0/16), which a VPN connects "+
		"with the VPC. Who may open a connection to them, by the security groups of both clouds:", databases()[0], databases()[1])
	if err := s.lookAtData(expectDataBefore, false); err != nil {
		return err
	}
	s.say("The account is one more object, with a Secret and a selector. The VMs of both clouds are entities of one kind, so " +
		"no-ssh-from-outside holds for the databases as soon as they are imported: no new policy is needed for that.")
	begin, after := time.Now(), s.account.server.Journal().Total()
	for _, name := range []string{fileAzure, fileWebTier} {
		if err := s.apply(ctx, name); err != nil {
			return err
		}
	}
	if err := s.cluster.givePodAddress(ctx); err != nil {
		return err
	}
	if err := s.await(ctx, "the databases are imported", s.databasesImported); err != nil {
		return err
	}
	m, err := s.enforceData(ctx, begin, after, []string{policyNoSSH}, expectDataImported)
	if err != nil {
		return err
	}
	s.say("Imported and guarded after %s. Calls to the clouds: %s, the controller's polls included.", seconds(m.reported), m.calls)
	return s.lookAtData(expectDataImported, true)
}

// onePolicy enforces one policy at both ends.
func (s *story) onePolicy(ctx context.Context) error {
	s.heading("One policy, two clouds")
	s.say("The web tier (CVP Server Test, on AWS), the Pod reports and the databases themselves reach the databases on tcp/5432, and nobody " +
		"reaches anything else there. The switches may not even try: that is enforced where they are, on AWS.")
	begin, after := time.Now(), s.account.server.Journal().Total()
	if err := s.apply(ctx, fileDatabases); err != nil {
		return err
	}
	m, err := s.enforceData(ctx, begin, after, []string{policyDatabases, policyNoSSH}, expectDataGuarded)
	if err != nil {
		return err
	}
	s.say("In force after %s, status Realized after %s. Calls to the clouds: %s, the controller's polls included.",
		seconds(m.inForce), seconds(m.reported), m.calls)
	if err := s.lookAtData(expectDataGuarded, true); err != nil {
		return err
	}
	s.say("On Azure, VMs of AWS and Pods are named by address, and the databases by their application security group:")
	s.print(s.azureGroups())
	aws, azureSide, err := s.account.halves(border01)
	if err != nil {
		return err
	}
	var wrong []string
	if aws == "" || azureSide == "" {
		wrong = []string{fmt.Sprintf("on AWS %q, on Azure %q", aws, azureSide)}
	}
	s.check(wrong, "%s is stopped on its way to %s at both ends, on AWS and on Azure", border01, databases()[0])
	return nil
}

// enforceData waits until the databases and the policies say that all is realized, and the verdicts
// are as expected.
func (s *story) enforceData(ctx context.Context, begin time.Time, after int, policies []string, want string) (measured, error) {
	var out measured
	cells := dataTable(want).cells
	err := s.await(ctx, "the policies are realized", func(ctx context.Context) (string, error) {
		missing, err := s.cluster.databasesRealized(ctx, policies)
		if err != nil {
			return "", err
		}
		if missing == "" && slices.Contains(policies, policyDatabases) {
			on := policiesOn(true)
			for _, name := range []string{border01, border02} {
				on[name] = append([]string{policyDatabases}, on[name]...)
			}
			if missing, err = s.cluster.realized(ctx, s.machines, on); err != nil {
				return "", err
			}
		}
		m, err := s.account.dataMatrix()
		if err != nil {
			return "", err
		}
		now := time.Since(begin)
		asExpected := len(m.differences(cells)) == 0
		if asExpected && out.inForce == 0 {
			out.inForce = now
		}
		if missing == "" && out.reported == 0 {
			out.reported, out.calls = now, count(s.account.server.Journal().Calls(after))
		}
		if missing == "" && !asExpected && now < out.reported+grace {
			return "the status says so, but the security groups do not allow what they should", nil
		}
		return missing, nil
	})
	return out, err
}

// databasesImported: there is an entity with the tag of Azure for each database.
func (s *story) databasesImported(ctx context.Context) (string, error) {
	found, err := s.cluster.databaseObjects(ctx)
	if err != nil {
		return "", err
	}
	for _, name := range databases() {
		vm, ok := found[name]
		if !ok {
			return "there is no VirtualMachine for " + name, nil
		}
		entity := cloudv1.EntityNamePrefix + vm.Name
		var e v1alpha2.ExternalEntity
		if err := s.cluster.Get(ctx, types.NamespacedName{Namespace: namespace, Name: entity}, &e); err != nil {
			return "there is no ExternalEntity " + entity, client.IgnoreNotFound(err)
		}
	}
	return "", nil
}

// databaseObjects are the VirtualMachines of the databases, by their names in the cloud.
func (c cluster) databaseObjects(ctx context.Context) (map[string]*cloudv1.VirtualMachine, error) {
	var all cloudv1.VirtualMachineList
	if err := c.List(ctx, &all, client.InNamespace(namespace), client.MatchingLabels{cloudv1.LabelCPAName: azureAccountName}); err != nil {
		return nil, err
	}
	out := map[string]*cloudv1.VirtualMachine{}
	for i := range all.Items {
		out[all.Items[i].Status.CloudName] = &all.Items[i]
	}
	return out, nil
}

// databasesRealized: exactly the wanted policies are in force on each database.
func (c cluster) databasesRealized(ctx context.Context, policies []string) (string, error) {
	found, err := c.databaseObjects(ctx)
	if err != nil {
		return "", err
	}
	var missing []string
	for _, name := range databases() {
		vm, ok := found[name]
		if !ok {
			return "there is no VirtualMachine for " + name, nil
		}
		missing = append(missing, onVM(vm, name, policies)...)
	}
	for _, name := range policies {
		var p v1beta1.ClusterNetworkPolicy
		if err := c.Get(ctx, types.NamespacedName{Name: name}, &p); err != nil {
			return "", err
		}
		missing = append(missing, inPhase("ClusterNetworkPolicy "+name, p.Generation, p.Status)...)
	}
	return strings.Join(missing, "; "), nil
}

// givePodAddress does what a kubelet would.
func (c cluster) givePodAddress(ctx context.Context) error {
	var pod corev1.Pod
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: reportsPod}, &pod); err != nil {
		return err
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, reportsIP, []corev1.PodIP{{IP: reportsIP}}
	return c.Status().Update(ctx, &pod)
}

// azureGroups lists our groups on Azure with their rules.
func (s *story) azureGroups() string {
	var b strings.Builder
	state := s.account.azureState()
	for _, r := range state.Resources {
		if !azureOurs(r) || !strings.HasSuffix(r.Type, "networkSecurityGroups") {
			continue
		}
		fmt.Fprintf(&b, "  %s\n", r.ID[strings.LastIndexByte(r.ID, '/')+1:])
		rules, _ := r.Properties["securityRules"].([]any)
		for _, raw := range rules {
			if rule, ok := raw.(map[string]any); ok {
				if text := azureRule(rule); text != "" {
					fmt.Fprintf(&b, "      %s\n", text)
				}
			}
		}
	}
	return b.String()
}

// azureRule spells an inbound rule; empty for others.
func azureRule(rule map[string]any) string {
	p, _ := rule["properties"].(map[string]any)
	if p == nil || p["direction"] != "Inbound" {
		return ""
	}
	list := func(one, many string) string {
		var out []string
		if text, _ := p[one].(string); text != "" {
			out = append(out, text)
		}
		all, _ := p[many].([]any)
		for _, x := range all {
			switch x := x.(type) {
			case string:
				out = append(out, x)
			case map[string]any:
				id := fmt.Sprint(x["id"])
				out = append(out, id[strings.LastIndexByte(id, '/')+1:])
			}
		}
		return strings.Join(out, ", ")
	}
	from := strings.Trim(list("sourceAddressPrefix", "sourceAddressPrefixes")+", "+list("", "sourceApplicationSecurityGroups"), ", ")
	return fmt.Sprintf("in %v %s: %v %s from %s", p["priority"], strings.ToLower(fmt.Sprint(p["access"])), p["protocol"], list("destinationPortRange", "destinationPortRanges"), from)
}

// dataReleased says whether nothing on Azure holds anything of ours any more.
func (s *story) dataReleased(context.Context) (string, error) {
	state := s.account.azureState()
	for _, r := range state.Resources {
		if azureOurs(r) {
			return r.ID + " carries a tag of ours", nil
		}
	}
	return "", nil
}
