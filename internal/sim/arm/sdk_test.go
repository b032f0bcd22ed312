package arm_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resourcegraph/armresourcegraph"

	"github.com/nephele-io/nephele/internal/sim/arm"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/calls"
)

// TestReadEverything reads the estate with the official clients, page by page, and looks at what
// only the cloud fills in.
func TestReadEverything(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{config: func(c *arm.Config) { c.PageSize = 1 }})
	c := l.usual()

	var nics []*armnetwork.Interface
	pages := 0
	for pager := c.network.NewInterfacesClient().NewListAllPager(nil); pager.More(); pages++ {
		page, err := pager.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		nics = append(nics, page.Value...)
	}
	if len(nics) != 3 || pages != 3 {
		t.Fatalf("%d interfaces on %d pages, want 3 on 3", len(nics), pages)
	}
	nsg, err := c.network.NewSecurityGroupsClient().Get(ctx, "shop", "NSG-WEB", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := nsg.Properties
	if len(p.SecurityRules) != 2 || len(p.DefaultSecurityRules) != 6 || len(p.NetworkInterfaces) != 1 || *p.NetworkInterfaces[0].ID != l.webNIC {
		t.Errorf("the group shows %d rules, %d default rules and interfaces %v", len(p.SecurityRules), len(p.DefaultSecurityRules), p.NetworkInterfaces)
	}
	if *nsg.ID != l.nsgWeb || *p.ProvisioningState != armnetwork.ProvisioningStateSucceeded || !strings.HasPrefix(*nsg.Etag, `W/"`) || *p.SecurityRules[0].Etag != *nsg.Etag {
		t.Errorf("id %s, state %s, etag %s", *nsg.ID, *p.ProvisioningState, *nsg.Etag)
	}
	nic, err := c.network.NewInterfacesClient().Get(ctx, "shop", "web-1-nic", nil)
	if err != nil {
		t.Fatal(err)
	}
	if nic.Properties.VirtualMachine == nil || *nic.Properties.VirtualMachine.ID != l.web {
		t.Errorf("the interface is of %v, want %s", nic.Properties.VirtualMachine, l.web)
	}
	vnet, err := c.network.NewVirtualNetworksClient().Get(ctx, "shop", "vnet-a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := *vnet.Properties.VirtualNetworkPeerings[0].Properties.PeeringState; got != armnetwork.VirtualNetworkPeeringStateConnected {
		t.Errorf("the peering is %s", got)
	}
	if got := vnet.Properties.Subnets[1].Properties; len(got.IPConfigurations) != 1 || got.NetworkSecurityGroup == nil {
		t.Errorf("the subnet shows users %v and group %v", got.IPConfigurations, got.NetworkSecurityGroup)
	}
	vm, err := c.compute.NewVirtualMachinesClient().Get(ctx, "shop", "web-1", &armcompute.VirtualMachinesClientGetOptions{Expand: ptr(armcompute.InstanceViewTypesInstanceView)})
	if err != nil {
		t.Fatal(err)
	}
	if got := vm.Properties.InstanceView.Statuses; len(got) != 2 || *got[1].Code != "PowerState/running" {
		t.Errorf("statuses %v", got)
	}
}

// TestEffectiveRules reads with the official client what filters an interface.
func TestEffectiveRules(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{})
	c := l.usual()
	effective := func(nic string) ([]*armnetwork.EffectiveNetworkSecurityGroup, error) {
		p, err := c.network.NewInterfacesClient().BeginListEffectiveNetworkSecurityGroups(ctx, "shop", nic, nil)
		if err != nil {
			return nil, err
		}
		got, err := p.PollUntilDone(ctx, nil)
		return got.Value, err
	}
	web, err := effective("web-1-nic")
	if err != nil {
		t.Fatal(err)
	}
	if len(web) != 1 || *web[0].NetworkSecurityGroup.ID != l.nsgWeb || web[0].Association.NetworkInterface == nil || *web[0].Association.NetworkInterface.ID != l.webNIC || len(web[0].EffectiveSecurityRules) != 8 {
		t.Fatalf("web-1 has %+v", web)
	}
	text := func(list []*string) string {
		var out []string
		for _, s := range list {
			out = append(out, *s)
		}
		return strings.Join(out, " ")
	}
	for _, r := range web[0].EffectiveSecurityRules {
		switch *r.Name {
		case "securityRules/https":
			if *r.Protocol != armnetwork.EffectiveSecurityRuleProtocolTCP || *r.DestinationPortRange != "443-443" || *r.SourcePortRange != "0-65535" || *r.SourceAddressPrefix != "Internet" ||
				!strings.HasPrefix(text(r.ExpandedSourceAddressPrefix), "0.0.0.0/5 8.0.0.0/7 10.0.0.0/16 10.3.0.0/16 ") || *r.DestinationAddressPrefix != "0.0.0.0/0" || *r.Priority != 100 {
				t.Errorf("%s: %s from %s", *r.Name, *r.DestinationPortRange, text(r.ExpandedSourceAddressPrefix))
			}
		case "defaultSecurityRules/AllowVnetInBound":
			if text(r.ExpandedSourceAddressPrefix) != "168.63.129.16/32 10.1.0.0/16 10.2.0.0/16" || *r.Protocol != armnetwork.EffectiveSecurityRuleProtocolAll {
				t.Errorf("%s: %s", *r.Name, text(r.ExpandedSourceAddressPrefix))
			}
		}
	}
	db, err := effective("db-1-nic")
	if err != nil || len(db) != 1 || db[0].Association.Subnet == nil || *db[0].Association.Subnet.ID != l.vnet+"/subnets/db" {
		t.Errorf("db-1 has %+v, %v", db, err)
	}
	stop, err := c.compute.NewVirtualMachinesClient().BeginDeallocate(ctx, "shop", "db-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stop.PollUntilDone(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := effective("db-1-nic"); err == nil || !strings.Contains(err.Error(), "must be attached to a virtual machine that runs") {
		t.Errorf("of a machine that does not run: %v", err)
	}
	if _, err := effective("nobody"); err == nil {
		t.Error("of an interface that does not exist")
	}
}

// TestWriteGroup creates, changes and deletes a group, at once and as an operation that takes its
// time.
func TestWriteGroup(t *testing.T) {
	for name, delay := range map[string]time.Duration{"at once": 0, "as an operation": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			l := newLab(t, options{delay: delay})
			groups := l.usual().network.NewSecurityGroupsClient()
			create := func(rules ...*armnetwork.SecurityRule) (armnetwork.SecurityGroup, *http.Response) {
				t.Helper()
				var raw *http.Response
				poller, err := groups.BeginCreateOrUpdate(policy.WithCaptureResponse(ctx, &raw), "shop", "mine", armnetwork.SecurityGroup{
					Location: ptr(region), Properties: &armnetwork.SecurityGroupPropertiesFormat{SecurityRules: rules}, Tags: map[string]*string{"a": ptr("b")},
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				l.clock.advance(delay)
				out, err := poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				return out.SecurityGroup, raw
			}
			first, raw := create(allowTCP("one", 100, "443"))
			if raw.StatusCode != http.StatusCreated || (raw.Header.Get("Azure-AsyncOperation") != "") != (delay > 0) {
				t.Errorf("the creation was answered with %d and operation %q", raw.StatusCode, raw.Header.Get("Azure-AsyncOperation"))
			}
			second, raw := create(allowTCP("two", 100, "80"))
			if raw.StatusCode != http.StatusOK || len(second.Properties.SecurityRules) != 1 || *second.Properties.SecurityRules[0].Name != "two" {
				t.Errorf("the second PUT was answered with %d and left %v", raw.StatusCode, second.Properties.SecurityRules)
			}
			if *first.Etag == *second.Etag || *first.Properties.ResourceGUID != *second.Properties.ResourceGUID {
				t.Errorf("etags %s and %s, ids %s and %s", *first.Etag, *second.Etag, *first.Properties.ResourceGUID, *second.Properties.ResourceGUID)
			}
			del, err := groups.BeginDelete(ctx, "SHOP", "Mine", nil)
			if err != nil {
				t.Fatal(err)
			}
			l.clock.advance(delay)
			if _, err := del.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: time.Millisecond}); err != nil {
				t.Fatal(err)
			}
			_, err = groups.Get(ctx, "shop", "mine", nil)
			expectCode(t, err, 404, "ResourceNotFound")
		})
	}
}

func allowTCP(name string, priority int32, port string) *armnetwork.SecurityRule {
	return &armnetwork.SecurityRule{Name: ptr(name), Properties: &armnetwork.SecurityRulePropertiesFormat{
		Access:    ptr(armnetwork.SecurityRuleAccessAllow),
		Direction: ptr(armnetwork.SecurityRuleDirectionInbound),
		Priority:  ptr(priority),
		Protocol: ptr(
			armnetwork.SecurityRuleProtocolTCP,
		),
		SourceAddressPrefix:      ptr("*"),
		DestinationAddressPrefix: ptr("*"),
		SourcePortRange:          ptr("*"),
		DestinationPortRange:     ptr(port),
	}}
}

// TestConcurrentWrites: a stale etag is refused, a second write meets the first one, and so does an
// interface that names the group.
func TestConcurrentWrites(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{delay: 10 * time.Second})
	c := l.usual()
	groups, nics := c.network.NewSecurityGroupsClient(), c.network.NewInterfacesClient()
	g, err := groups.Get(ctx, "shop", "nsg-web", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = groups.BeginCreateOrUpdate(ifMatch(ctx, `W/"00000000-0000-0000-0000-000000000000"`), "shop", "nsg-web", g.SecurityGroup, nil)
	expectCode(t, err, 412, "PreconditionFailed")
	if _, err := groups.BeginCreateOrUpdate(ifMatch(ctx, *g.Etag), "shop", "nsg-web", g.SecurityGroup, nil); err != nil {
		t.Fatal(err)
	}
	_, err = groups.BeginCreateOrUpdate(ctx, "shop", "nsg-web", g.SecurityGroup, nil)
	expectCode(t, err, 409, "AnotherOperationInProgress")
	nic, err := nics.Get(ctx, "shop", "web-1-nic", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = nics.BeginCreateOrUpdate(ctx, "shop", "web-1-nic", nic.Interface, nil)
	expectCode(t, err, 429, "RetryableError")
	l.clock.advance(10 * time.Second)
	if _, err := nics.BeginCreateOrUpdate(ctx, "shop", "web-1-nic", nic.Interface, nil); err != nil {
		t.Errorf("after the operation: %v", err)
	}
	stale := *g.Etag
	_, err = groups.BeginCreateOrUpdate(ifMatch(ctx, stale), "shop", "nsg-web", g.SecurityGroup, nil)
	expectCode(t, err, 412, "PreconditionFailed")
}

// TestOperationFailsLate: an operation that was accepted fails, and the group is as it was.
func TestOperationFailsLate(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{})
	groups := l.usual().network.NewSecurityGroupsClient()
	l.faults.Add(calls.Fault{Action: "Microsoft.Network/networkSecurityGroups/write", Code: "InternalServerError", Message: "it went wrong", Late: true})
	g, err := groups.Get(ctx, "shop", "nsg-web", nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Properties.SecurityRules = nil
	poller, err := groups.BeginCreateOrUpdate(ctx, "shop", "nsg-web", g.SecurityGroup, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = poller.PollUntilDone(ctx, &runtime.PollUntilDoneOptions{Frequency: time.Millisecond})
	expectCode(t, err, 200, "InternalServerError")
	g, err = groups.Get(ctx, "shop", "nsg-web", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Properties.SecurityRules) != 2 || *g.Properties.ProvisioningState != armnetwork.ProvisioningStateFailed {
		t.Errorf("%d rules, state %s", len(g.Properties.SecurityRules), *g.Properties.ProvisioningState)
	}
}

// TestInterfaceRoundTrip: what is read and written back stays the same, whatever it is, and one PUT
// sets both groups.
func TestInterfaceRoundTrip(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{})
	nics := l.usual().network.NewInterfacesClient()
	before, err := nics.Get(ctx, "shop", "db-1-nic", nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(n armnetwork.Interface) armnetwork.Interface {
		t.Helper()
		poller, err := nics.BeginCreateOrUpdate(ctx, "shop", "db-1-nic", n, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := poller.PollUntilDone(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out.Interface
	}
	changed := before.Interface
	again, err := nics.Get(ctx, "shop", "db-1-nic", nil)
	if err != nil {
		t.Fatal(err)
	}
	changed.Properties = again.Properties
	changed.Properties.NetworkSecurityGroup = &armnetwork.SecurityGroup{ID: ptr(strings.ToUpper(l.nsgWeb))}
	changed.Properties.IPConfigurations[0].Properties.ApplicationSecurityGroups = []*armnetwork.ApplicationSecurityGroup{{ID: &l.asgWeb}}
	out := write(changed)
	if out.Properties.NetworkSecurityGroup == nil || len(out.Properties.IPConfigurations[0].Properties.ApplicationSecurityGroups) != 1 {
		t.Error("the PUT has not set both groups")
	}
	if v := l.allowed(azure.Flow{Src: azure.End{NIC: l.webNIC}, Dst: azure.End{NIC: l.dbNIC}, Protocol: 6, Port: 22}); v.Allowed {
		t.Errorf("the group is not in force: %s", v.Reason)
	}
	restored := write(before.Interface)
	if a, b := withoutEtags(t, before.Interface), withoutEtags(t, restored); a != b {
		t.Errorf("not the same again:\n%s\n%s", a, b)
	}
}

func withoutEtags(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "etag")
			for _, x := range v {
				strip(x)
			}
		case []any:
			for _, x := range v {
				strip(x)
			}
		}
	}
	strip(doc)
	raw, err = json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestParts: rules and subnets are also written one by one, and change the whole.
func TestParts(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{})
	rules := l.usual().network.NewSecurityRulesClient()
	if _, err := rules.BeginCreateOrUpdate(ctx, "shop", "nsg-web", "http", *allowTCP("http", 110, "80"), nil); err != nil {
		t.Fatal(err)
	}
	_, err := rules.BeginCreateOrUpdate(ctx, "shop", "nsg-web", "clash", *allowTCP("clash", 110, "81"), nil)
	expectCode(t, err, 400, "SecurityRuleConflict")
	if _, err := rules.Get(ctx, "shop", "nsg-web", "HTTP", nil); err != nil {
		t.Error(err)
	}
	if _, err := rules.BeginDelete(ctx, "shop", "nsg-web", "https", nil); err != nil {
		t.Error(err)
	}
	n := 0
	for pager := rules.NewListPager("shop", "nsg-web", nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Value)
	}
	if n != 2 {
		t.Errorf("%d rules, want 2", n)
	}
	subnets := l.usual().network.NewSubnetsClient()
	_, err = subnets.BeginDelete(ctx, "shop", "vnet-a", "db", nil)
	expectCode(t, err, 400, "InUseSubnetCannotBeDeleted")
	_, err = subnets.BeginCreateOrUpdate(ctx, "shop", "vnet-a", "new", armnetwork.Subnet{Properties: &armnetwork.SubnetPropertiesFormat{AddressPrefix: ptr("10.1.2.0/25")}}, nil)
	expectCode(t, err, 400, "NetcfgSubnetRangesOverlap")
}

// TestResourceGraph asks the query that an inventory asks, with pages, in both forms, and behind
// the truth.
func TestResourceGraph(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{lag: time.Minute})
	c := l.usual()
	ask := func(query string, o *armresourcegraph.QueryRequestOptions) armresourcegraph.ClientResourcesResponse {
		t.Helper()
		out, err := c.graph.Resources(ctx, armresourcegraph.QueryRequest{Query: &query, Subscriptions: []*string{ptr(subscription)}, Options: o}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	query := `Resources | where type in~ ('Microsoft.Network/networkInterfaces', 'Microsoft.Compute/virtualMachines') and location =~ 'westeurope'
		| project id, name, type, power = properties.extended.instanceView.powerState.code, tags | order by id asc`
	rows, token := []map[string]any{}, (*string)(nil)
	for {
		out := ask(query, &armresourcegraph.QueryRequestOptions{Top: ptr(int32(4)), SkipToken: token, ResultFormat: ptr(armresourcegraph.ResultFormatObjectArray)})
		for _, r := range out.Data.([]any) {
			rows = append(rows, r.(map[string]any))
		}
		if token = out.SkipToken; token == nil {
			break
		}
	}
	if len(rows) != 6 || rows[0]["type"] != "microsoft.compute/virtualmachines" || rows[0]["power"] != "PowerState/running" {
		t.Fatalf("%d rows, first %v", len(rows), rows[0])
	}
	table := ask("resources | where name == 'nsg-web' | project name, properties", &armresourcegraph.QueryRequestOptions{ResultFormat: ptr(armresourcegraph.ResultFormatTable)})
	if columns := table.Data.(map[string]any)["columns"].([]any); len(columns) != 2 || columns[1].(map[string]any)["type"] != "object" {
		t.Errorf("columns %v", columns)
	}
	groups := c.network.NewApplicationSecurityGroupsClient()
	if _, err := groups.BeginCreateOrUpdate(ctx, "shop", "fresh", armnetwork.ApplicationSecurityGroup{Location: ptr(region)}, nil); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		return int(*ask("Resources | where name == 'fresh'", nil).TotalRecords)
	}
	if count() != 0 {
		t.Error("the graph knows a change at once")
	}
	l.clock.advance(time.Minute)
	if count() != 1 {
		t.Error("the graph does not know a change after a minute")
	}
	_, err := c.graph.Resources(ctx, armresourcegraph.QueryRequest{Query: ptr("Resources | mv-expand x"), Subscriptions: []*string{ptr(subscription)}}, nil)
	expectCode(t, err, 400, "BadRequest")
	_, err = c.graph.Resources(ctx, armresourcegraph.QueryRequest{Query: ptr("Resources"), Subscriptions: []*string{ptr(tenantID)}}, nil)
	expectCode(t, err, 403, "AccessDenied")
}

// TestPower: machines are stopped and started.
func TestPower(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{})
	vms := l.usual().compute.NewVirtualMachinesClient()
	if _, err := vms.BeginDeallocate(ctx, "shop", "web-1", nil); err != nil {
		t.Fatal(err)
	}
	view, err := vms.InstanceView(ctx, "shop", "web-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := *view.Statuses[1].Code; got != "PowerState/deallocated" {
		t.Errorf("the machine is %s", got)
	}
}

// TestLostAnswer: a call is executed and the connection cut.
func TestLostAnswer(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{})
	groups := l.usual().network.NewApplicationSecurityGroupsClient()
	l.faults.Add(calls.Fault{Action: "Microsoft.Network/applicationSecurityGroups/write", LoseAnswer: true})
	if _, err := groups.BeginCreateOrUpdate(ctx, "shop", "lost", armnetwork.ApplicationSecurityGroup{Location: ptr(region)}, nil); err == nil {
		t.Error("the answer came")
	}
	if _, err := groups.Get(ctx, "shop", "lost", nil); err != nil {
		t.Errorf("the call was not executed: %v", err)
	}
	all := l.journal.Calls(0)
	i := len(all) - 2
	if !all[i].AnswerLost || all[i].Params["method"] != "PUT" || all[i].Params["body"] != `{"location":"westeurope"}` {
		t.Errorf("the journal has %+v", all[i])
	}
}
