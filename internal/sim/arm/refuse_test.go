package arm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/nephele-io/nephele/internal/sim/arm"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

// raw sends a call as it is and returns the status, the code of the refusal if it is one, and the
// document.
func (l *lab) raw(method, path, body string, header ...string) (int, string, map[string]any) {
	l.t.Helper()
	token, err := l.credentialOf(l.client, secret).GetToken(l.t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://management.azure.com/.default"}})
	if err != nil {
		l.t.Fatal(err)
	}
	if !strings.Contains(path, "api-version") {
		path += "?api-version=2025-03-01"
	}
	r, err := http.NewRequestWithContext(l.t.Context(), method, l.server.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token.Token)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := l.server.Client().Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	var doc map[string]any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &doc); err != nil {
			l.t.Fatalf("%s: %v", raw, err)
		}
	}
	code := ""
	if e, ok := doc["error"].(map[string]any); ok {
		code = e["code"].(string)
	}
	return resp.StatusCode, code, doc
}

const shop = "/subscriptions/" + subscription + "/resourceGroups/shop"

// TestRuleRefusals: a group with a rule that Azure does not take is refused with Azure's code, and
// nothing has changed.
func TestRuleRefusals(t *testing.T) {
	l := newLab(t, options{estate: func(b *build.Builder) {
		for i := range 12 {
			b.ApplicationGroup("shop", fmt.Sprintf("many-%d", i))
		}
	}})
	asg := func(name string) string {
		return `{"id": "` + shop + `/providers/Microsoft.Network/applicationSecurityGroups/` + name + `"}`
	}
	var eleven []string
	for i := range 11 {
		eleven = append(eleven, asg(fmt.Sprintf("many-%d", i)))
	}
	for _, c := range []struct{ name, change, code string }{
		{"", ``, ""},
		{"Priority below", `"priority": 99`, "SecurityRuleInvalidPriority"},
		{"Priority above", `"priority": 4097`, "SecurityRuleInvalidPriority"},
		{"Priority in words", `"priority": "first"`, "InvalidRequestFormat"},
		{"Protocol", `"protocol": "Sctp"`, "SecurityRuleInvalidProtocol"},
		{"Direction", `"direction": "Sideways"`, "InvalidRequestFormat"},
		{"Access", `"access": "Maybe"`, "InvalidRequestFormat"},
		{"Description", `"description": "` + strings.Repeat("x", 141) + `"`, "SecurityRuleInvalidDescription"},
		{"Port", `"destinationPortRange": "70000"`, "SecurityRuleParameterContainsInvalidPortRanges"},
		{"Star among ports", `"destinationPortRange": null, "destinationPortRanges": ["*"]`, "SecurityRuleParameterContainsInvalidPortRanges"},
		{"One port and many", `"destinationPortRanges": ["1-2"]`, "SecurityRuleParametersCannotBeSpecifiedTogether"},
		{"One prefix and many", `"sourceAddressPrefixes": ["10.0.0.0/8"]`, "SecurityRuleParametersCannotBeSpecifiedTogether"},
		{"Tag among prefixes", `"sourceAddressPrefix": null, "sourceAddressPrefixes": ["VirtualNetwork"]`, "SecurityRuleParameterContainsUnsupportedValue"},
		{"Star among prefixes", `"sourceAddressPrefix": null, "sourceAddressPrefixes": ["*"]`, "SecurityRuleParameterContainsUnsupportedValue"},
		{"Overlap", `"sourceAddressPrefix": null, "sourceAddressPrefixes": ["10.0.0.0/8", "10.1.0.0/16"]`, "OverlappingSubnetsNotPermittedInSecurityRule"},
		{"Twice", `"sourceAddressPrefix": null, "sourceAddressPrefixes": ["10.0.0.1", "10.0.0.1/32"]`, "OverlappingSubnetsNotPermittedInSecurityRule"},
		{"Bits behind the mask", `"sourceAddressPrefix": "20.20.20.20/16"`, "SecurityRuleInvalidAddressPrefix"},
		{"No tag", `"sourceAddressPrefix": "Everybody"`, "SecurityRuleInvalidAddressPrefix"},
		{"Nothing", `"sourceAddressPrefix": null`, "SecurityRuleInvalidAddressPrefix"},
		{"Families on a side", `"sourceAddressPrefix": null, "sourceAddressPrefixes": ["10.0.0.0/8", "2001:db8::/32"]`, "ResourceCannotContainAddressPrefixesFromDifferentAddressFamilies"},
		{"Families on both sides", `"sourceAddressPrefix": "10.0.0.0/8", "destinationAddressPrefix": "2001:db8::/32"`, "ResourceCannotContainAddressPrefixesFromDifferentAddressFamilies"},
		{"Group and prefix", `"sourceApplicationSecurityGroups": [` + asg("asg-web") + `]`, "SecurityRuleParametersCannotBeSpecifiedTogether"},
		{"Group that is not there", `"sourceAddressPrefix": null, "sourceApplicationSecurityGroups": [` + asg("gone") + `]`, "InvalidResourceReference"},
		{"Groups of two networks", `"sourceAddressPrefix": null, "sourceApplicationSecurityGroups": [` + asg("asg-web") + `, ` + asg("asg-far") + `]`, "AllApplicationSecurityGroupsInSecurityRuleMustBeFromSameVnet"},
		{"Too many groups", `"sourceAddressPrefix": null, "sourceApplicationSecurityGroups": [` + strings.Join(eleven, ", ") + `]`, "NumberOfApplicationSecurityGroupsReferencedInSecurityRuleLimitReached"},
	} {
		var rule map[string]any
		base := `{"priority": 100, "direction": "Inbound", "access": "Allow", "protocol": "Tcp", "sourcePortRange": "*", "destinationPortRange": "443", "sourceAddressPrefix": "*", "destinationAddressPrefix": "*"}`
		if err := json.Unmarshal([]byte(base), &rule); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte("{"+c.change+"}"), &rule); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		raw, err := json.Marshal(map[string]any{"location": region, "properties": map[string]any{"securityRules": []any{map[string]any{"name": "r", "properties": rule}}}})
		if err != nil {
			t.Fatal(err)
		}
		name := "good"
		if c.code != "" {
			name = "bad"
		}
		path := shop + "/providers/Microsoft.Network/networkSecurityGroups/" + name
		status, code, _ := l.raw("PUT", path, string(raw))
		if code != c.code || (status == 400) != (c.code != "") {
			t.Errorf("%s: answered with %d %s, want %s", c.name, status, code, c.code)
		}
	}
	if status, _, _ := l.raw("GET", shop+"/providers/Microsoft.Network/networkSecurityGroups/bad", ""); status != 404 {
		t.Error("a refused group is there")
	}
}

// TestGroupRefusals are refusals about a whole group.
func TestGroupRefusals(t *testing.T) {
	l := newLab(t, options{})
	rule := func(name string, priority int) string {
		return fmt.Sprintf(
			`{"name": %q, "properties": {"priority": %d, "direction": "Inbound", "access": "Allow", "protocol": "*", "sourcePortRange": "*", "destinationPortRange": "*", "sourceAddressPrefix": "*", "destinationAddressPrefix": "*"}}`,
			name,
			priority,
		)
	}
	l.change(func(c *azure.Cloud) {
		if err := c.SetLimits(subscription, azure.Limits{RulesPerGroup: 3, NetworkSecurityGroups: 3, TagsPerResource: 2}); err != nil {
			t.Fatal(err)
		}
	})
	put := func(name, body string) string {
		_, code, _ := l.raw("PUT", shop+"/providers/Microsoft.Network/networkSecurityGroups/"+name, body)
		return code
	}
	rules := func(all ...string) string {
		return `{"location": "westeurope", "properties": {"securityRules": [` + strings.Join(all, ",") + `]}}`
	}
	for _, c := range []struct{ name, body, code string }{
		{"a b", rules(), "InvalidResourceName"},
		{"ends-", rules(), "InvalidResourceName"},
		{"x", `{`, "InvalidRequestContent"},
		{"x", `{"location": 7, "properties": []}`, "LocationRequired"},
		{"x", `{"properties": {}}`, "LocationRequired"},
		{"x", `{"location": "atlantis", "properties": {}}`, "LocationNotAvailableForResourceType"},
		{"nsg-web", `{"location": "eastus", "properties": {}}`, "InvalidResourceLocation"},
		{"x", `{"location": "westeurope", "tags": {"nephele.io/cluster": "c"}}`, "InvalidTagNameCharacters"},
		{"x", `{"location": "westeurope", "tags": {"a": "` + strings.Repeat("v", 257) + `"}}`, "InvalidTagValueLength"},
		{"x", `{"location": "westeurope", "tags": {"a": "1", "b": "2", "c": "3"}}`, "InvalidTagsCount"},
		{"x", rules(rule("a", 100), rule("A", 101)), "InvalidRequestFormat"},
		{"x", rules(rule("a", 100), rule("b", 100)), "SecurityRuleConflict"},
		{"x", rules(rule("denyallinbound", 100)), "SecurityRuleConflict"},
		{"x", rules(rule("a b", 100)), "InvalidResourceName"},
		{"x", rules(rule("a", 100), rule("b", 101), rule("c", 102), rule("d", 103)), "SecurityRuleCountLimitReached"},
		{"x", rules(rule("a", 100), rule("b", 101), rule("c", 102)), ""},
		{"y", rules(), "NetworkSecurityGroupCountLimitReached"},
	} {
		if code := put(c.name, c.body); code != c.code {
			t.Errorf("%s %.60s: answered with %q, want %q", c.name, c.body, code, c.code)
		}
	}
	for _, name := range []string{"networkSecurityGroups/nsg-web", "applicationSecurityGroups/asg-web", "networkInterfaces/web-1-nic", "virtualNetworks/vnet-a"} {
		status, code, _ := l.raw("DELETE", shop+"/providers/Microsoft.Network/"+name, "")
		if status != 400 || !strings.Contains(code, "InUse") {
			t.Errorf("deleting %s was answered with %d %s", name, status, code)
		}
	}
	if status, _, _ := l.raw("DELETE", shop+"/providers/Microsoft.Network/networkSecurityGroups/never", ""); status != 204 {
		t.Errorf("deleting what is not there was answered with %d", status)
	}
}

// TestInterfaceRefusals are refusals about interfaces and their groups.
func TestInterfaceRefusals(t *testing.T) {
	l := newLab(t, options{estate: func(b *build.Builder) {
		b.ApplicationGroup("shop", "free")
		b.SecurityGroup("shop", "nsg-two")
	}})
	_, _, doc := l.raw("GET", l.webNIC, "")
	base, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	asgs := func(p map[string]any, names ...string) {
		var all []any
		for _, n := range names {
			all = append(all, map[string]any{"id": shop + "/providers/Microsoft.Network/applicationSecurityGroups/" + n})
		}
		p["applicationSecurityGroups"] = all
	}
	for name, c := range map[string]struct {
		change func(properties, configuration map[string]any)
		code   string
	}{
		"nothing":          {func(_, _ map[string]any) {}, ""},
		"no configuration": {func(p, _ map[string]any) { p["ipConfigurations"] = []any{} }, "NetworkInterfaceMustHaveAtLeastOneIpConfiguration"},
		"no such group": {func(p, _ map[string]any) {
			p["networkSecurityGroup"] = map[string]any{"id": shop + "/providers/Microsoft.Network/networkSecurityGroups/gone"}
		}, "InvalidResourceReference"},
		"not a group":    {func(p, _ map[string]any) { p["networkSecurityGroup"] = map[string]any{"id": l.asgWeb} }, "InvalidResourceReference"},
		"no such ASG":    {func(_, c map[string]any) { asgs(c, "gone") }, "InvalidResourceReference"},
		"ASG elsewhere":  {func(_, c map[string]any) { asgs(c, "asg-far") }, "ApplicationSecurityGroupMembersMustBeFromSameVnet"},
		"no such subnet": {func(_, c map[string]any) { c["subnet"] = map[string]any{"id": l.vnet + "/subnets/gone"} }, "InvalidResourceReference"},
		"another network": {func(_, c map[string]any) {
			c["subnet"], c["privateIPAddress"] = map[string]any{"id": l.peerVNet + "/subnets/far"}, "10.2.1.9"
			asgs(c)
		}, "NetworkInterfaceCannotChangeVirtualNetwork"},
		"address elsewhere": {func(_, c map[string]any) { c["privateIPAddress"] = "10.9.9.9" }, "PrivateIPAddressNotInSubnet"},
		"address taken": {func(_, c map[string]any) {
			c["subnet"], c["privateIPAddress"] = map[string]any{"id": l.vnet + "/subnets/db"}, "10.1.2.4"
		}, "PrivateIPAddressInUse"},
		"two sets": {func(p, c map[string]any) {
			more := map[string]any{"privateIPAddress": "10.1.1.77", "privateIPAllocationMethod": "Static", "subnet": c["subnet"]}
			p["ipConfigurations"] = append(p["ipConfigurations"].([]any), map[string]any{"name": "second", "properties": more})
		}, "AllIpConfigurationsOnANicMustBelongToTheSameApplicationSecurityGroups"},
	} {
		var nic map[string]any
		if err := json.Unmarshal(base, &nic); err != nil {
			t.Fatal(err)
		}
		properties := nic["properties"].(map[string]any)
		c.change(properties, properties["ipConfigurations"].([]any)[0].(map[string]any)["properties"].(map[string]any))
		raw, err := json.Marshal(nic)
		if err != nil {
			t.Fatal(err)
		}
		if status, code, _ := l.raw("PUT", l.webNIC, string(raw)); code != c.code {
			t.Errorf("%s: answered with %d %s, want %q", name, status, code, c.code)
		}
	}
	// A group gets its first member in one network, though a rule names it together with a group of
	// another.
	rule := `{"name": "both", "properties": {"priority": 100, "direction": "Inbound", "access": "Allow", "protocol": "*", "sourcePortRange": "*", "destinationPortRange": "*",
		"destinationAddressPrefix": "*", "sourceApplicationSecurityGroups": [{"id": "` + shop + `/providers/Microsoft.Network/applicationSecurityGroups/free"}, {"id": "` + l.otherASG + `"}]}}`
	if _, code, _ := l.raw("PUT", shop+"/providers/Microsoft.Network/networkSecurityGroups/nsg-two/securityRules/both", rule); code != "" {
		t.Fatal(code)
	}
	properties := doc["properties"].(map[string]any)
	asgs(properties["ipConfigurations"].([]any)[0].(map[string]any)["properties"].(map[string]any), "free")
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if _, code, _ := l.raw("PUT", l.webNIC, string(raw)); code != "AllApplicationSecurityGroupsInSecurityRuleMustBeFromSameVnet" {
		t.Errorf("answered with %q", code)
	}
}

// TestPlacesThatAreNotThere: what no client should ask.
func TestPlacesThatAreNotThere(t *testing.T) {
	l := newLab(t, options{})
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/subscriptions/not-a-guid/resourcegroups", 400, "InvalidSubscriptionId"},
		{"GET", "/subscriptions/" + tenantID, 404, "SubscriptionNotFound"},
		{"GET", "/subscriptions/" + subscription + "/resourceGroups/gone/providers/Microsoft.Network/networkSecurityGroups", 404, "ResourceGroupNotFound"},
		{"GET", shop + "/providers/Microsoft.Network/networkSecurityGroups/gone", 404, "ResourceNotFound"},
		{"GET", shop + "/providers/Microsoft.Network/networkSecurityGroups/nsg-web/securityRules/gone", 404, "NotFound"},
		{"GET", shop + "/providers/Microsoft.Network/teapots/x", 404, "InvalidResourceType"},
		{"GET", shop + "/providers/Nobody.Knows/teapots/x", 404, "InvalidResourceNamespace"},
		{"GET", shop + "/providers/Microsoft.Network/networkSecurityGroups/nsg-web?api-version=latest", 400, "InvalidApiVersionParameter"},
		{"POST", shop + "/providers/Microsoft.Network/networkSecurityGroups/nsg-web", 405, "MethodNotAllowed"},
		{"PUT", shop + "/providers/Microsoft.Network/networkSecurityGroups/gone/securityRules/x", 404, "ParentResourceNotFound"},
		{"GET", "/nowhere", 404, "NotFound"},
		{"GET", shop + "/providers/Microsoft.Network/networkSecurityGroups?$skiptoken=%21&api-version=2025-03-01", 400, "InvalidSkipToken"},
	} {
		body := ""
		if c.method == "PUT" {
			body = "{}"
		}
		if status, code, _ := l.raw(c.method, c.path, body); status != c.status || code != c.code {
			t.Errorf("%s %s: answered with %d %s, want %d %s", c.method, c.path, status, code, c.status, c.code)
		}
	}
}

// TestLocksAndPolicies: what forbids changes from outside.
func TestLocksAndPolicies(t *testing.T) {
	l := newLab(t, options{})
	tags := shop + "/providers/Microsoft.Network/applicationSecurityGroups/asg-web/providers/Microsoft.Resources/tags/default"
	merge := `{"operation": "Merge", "properties": {"tags": {"a": "b"}}}`
	lock := shop + "/providers/Microsoft.Authorization/locks/mine"
	if status, _, _ := l.raw("PUT", lock, `{"properties": {"level": "ReadOnly"}}`); status != 200 {
		t.Fatalf("the lock was answered with %d", status)
	}
	if status, code, _ := l.raw("PATCH", tags, merge); status != 409 || code != "ScopeLocked" {
		t.Errorf("below a lock: %d %s", status, code)
	}
	if status, _, _ := l.raw("DELETE", lock, ""); status != 200 {
		t.Fatalf("removing the lock was answered with %d", status)
	}
	l.change(func(c *azure.Cloud) {
		c.SetDenials([]azure.Denial{{Assignment: "no-tags", Scope: shop, Action: "Microsoft.Resources/tags/*"}})
	})
	if status, code, _ := l.raw("PATCH", tags, merge); status != 403 || code != "RequestDisallowedByPolicy" {
		t.Errorf("against a policy: %d %s", status, code)
	}
	l.change(func(c *azure.Cloud) { c.SetDenials(nil) })
	if status, _, doc := l.raw("PATCH", tags, merge); status != 200 || doc["properties"].(map[string]any)["tags"].(map[string]any)["a"] != "b" {
		t.Errorf("tags: %d %v", status, doc)
	}
	if status, _, doc := l.raw(
		"PATCH",
		tags,
		`{"operation": "Delete", "properties": {"tags": {"A": ""}}}`,
	); status != 200 ||
		len(doc["properties"].(map[string]any)["tags"].(map[string]any)) != 0 {
		t.Errorf("tags: %d %v", status, doc)
	}
}

// TestRights: a role says what may be done, where, and what may be joined.
func TestRights(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, options{estate: func(b *build.Builder) { b.SecurityGroup("other", "nsg-other") }})
	role := azure.Role{
		Name: "r",
		Actions: []string{"Microsoft.Network/*/read", "Microsoft.Network/networkInterfaces/write", "Microsoft.Network/virtualNetworks/subnets/join/action",
			"Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action"},
		NotActions: []string{"Microsoft.Network/virtualNetworks/read"},
	}
	c := l.as("guest", azure.Assignment{Scope: shop, Role: role})
	nic, err := c.network.NewInterfacesClient().Get(ctx, "shop", "web-1-nic", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.network.NewInterfacesClient().BeginCreateOrUpdate(ctx, "shop", "web-1-nic", nic.Interface, nil)
	expectCode(t, err, 403, "LinkedAuthorizationFailed")
	_, err = c.network.NewVirtualNetworksClient().Get(ctx, "shop", "vnet-a", nil)
	expectCode(t, err, 403, "AuthorizationFailed")
	_, err = c.network.NewSecurityGroupsClient().Get(ctx, "other", "nsg-other", nil)
	expectCode(t, err, 403, "AuthorizationFailed")
	_, err = c.network.NewSecurityGroupsClient().BeginDelete(ctx, "shop", "nsg-web", nil)
	expectCode(t, err, 403, "AuthorizationFailed")
	role.Actions = append(role.Actions, "Microsoft.Network/networkSecurityGroups/join/action")
	c = l.as("guest", azure.Assignment{Scope: shop, Role: role})
	if _, err := c.network.NewInterfacesClient().BeginCreateOrUpdate(ctx, "shop", "web-1-nic", nic.Interface, nil); err != nil {
		t.Error(err)
	}
}

// TestThrottling: buckets empty and fill again, and say when to come back.
func TestThrottling(t *testing.T) {
	var throttle *arm.Throttle
	l := newLab(t, options{config: func(c *arm.Config) {
		throttle = arm.NewThrottle(c.Clock, 0)
		throttle.Set(arm.BucketNetworkWrites, arm.Bucket{Size: 2, Refill: 0.1})
		c.Throttle = throttle
	}})
	put := func() (int, string) {
		status, code, _ := l.raw("PUT", shop+"/providers/Microsoft.Network/applicationSecurityGroups/new", `{"location": "westeurope"}`)
		return status, code
	}
	for range 2 {
		if status, code := put(); status >= 300 {
			t.Fatal(status, code)
		}
	}
	if status, code := put(); status != 429 || code != "TooManyRequests" {
		t.Errorf("the third call: %d %s", status, code)
	}
	l.clock.advance(10 * time.Second)
	if status, code := put(); status != 200 {
		t.Errorf("after ten seconds: %d %s", status, code)
	}
	for i := range 20 {
		if status, code, _ := l.raw("POST", "/providers/Microsoft.ResourceGraph/resources", `{"query": "Resources | limit 1"}`); (status == 429) != (i >= 15) {
			t.Fatalf("query %d: %d %s", i, status, code)
		}
	}
}
